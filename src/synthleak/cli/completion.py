"""`synthleak completion`: completion of commands and options in the shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash:  synthleak completion bash >> ~/.bashrc
    zsh:   synthleak completion zsh >> ~/.zshrc
    fish:  synthleak completion fish > ~/.config/fish/completions/synthleak.fish
    """
    from synthleak.cli.main import cli

    maker = get_completion_class(shell)
    assert maker is not None  # click knows all three
    click.echo(maker(cli, {}, "synthleak", "_SYNTHLEAK_COMPLETE").source())
