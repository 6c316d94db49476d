"""Text for LaTeX: whatever a name holds, it is set and never executed."""

from __future__ import annotations

from synthleak.paper.tables.layout import Piece, Words

_SYMBOLS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    '"': "''",
    "`": r"\textasciigrave{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "-": "{-}",
    "[": "{[}",
    "]": "{]}",
    "*": r"$\ast$",
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "\N{MINUS SIGN}": "$-$",
    "±": r"$\pm$",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "≈": r"$\approx$",
    "∞": r"$\infty$",
    "∪": r"$\cup$",
    "†": r"$\dagger$",
    "√": r"$\surd$",
    "Δ": r"$\Delta$",
    "δ": r"$\delta$",
    "ε": r"$\varepsilon$",
    "ρ": r"$\rho$",
    "σ": r"$\sigma$",
    "’": "'",
    "‘": "`",
    "“": "``",
    "”": "''",
    "\N{NO-BREAK SPACE}": "~",
    "\N{THIN SPACE}": r"\,",
}
_LATIN = range(0xC0, 0x180)
"""Letters that every LaTeX sets from UTF-8, but for those below."""
_UNSET = set("ÐÞðþĦħĸŊŋŦŧŉſ×÷ĿŀĐđĄąĘęĮįŲų")


def escape(text: str) -> str:
    r"""Write any text so that LaTeX sets it and executes nothing of it.

    A letter that a small LaTeX has no glyph for is named by its code.

    >>> escape("a_b & 50% {x} ~^\\")
    'a\\_b \\& 50\\% \\{x\\} \\textasciitilde{}\\textasciicircum{}\\textbackslash{}'
    >>> escape("é 你")
    'é {[}U+4F60{]}'
    """
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    if character in _SYMBOLS:
        return _SYMBOLS[character]
    if character.isspace():
        return " "
    if " " <= character <= "~" or (ord(character) in _LATIN and character not in _UNSET):
        return character
    return f"{{[}}U+{ord(character):04X}{{]}}"


def inline(text: Words) -> str:
    """Write a run of pieces."""
    return "".join(_piece(piece) for piece in text)


def _piece(piece: Piece) -> str:
    text = escape(piece.text)
    for yes, command in (
        (piece.underlined, r"\underline"),
        (piece.typewriter, r"\texttt"),
        (piece.italic, r"\textit"),
        (piece.bold, r"\textbf"),
        (piece.colour, rf"\textcolor{{{piece.colour}}}"),
        (piece.form == "sup", r"\textsuperscript"),
        (piece.form == "sub", r"\textsubscript"),
    ):
        if yes:
            text = f"{command}{{{text}}}"
    return rf"{{\scriptsize{{}}{text}}}" if piece.form == "small" else text
