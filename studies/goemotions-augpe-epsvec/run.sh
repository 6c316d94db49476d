#!/bin/sh
# Runs one spec of this folder and says how long each phase took.
# usage: sh run.sh epsvec|augpe|augpe-short FOLDER-OF-THE-CORPUS OUT
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$3"
cp "$here/$1.toml" "$3/$1.toml"
ln -sf "$(cd "$2" && pwd)/goemotions.jsonl.gz" "$3/goemotions.jsonl.gz"
python -c '
import logging
logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
logging.getLogger("synthleak").setLevel(logging.INFO)
from synthleak.cli.main import main
main()
' run "$3/$1.toml" --out "$3/$1"
