#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of README.md and compares what they print with what the README shows.

  tools/check_readme.py [ROOT] [DOCUMENT]

An example is a fenced block marked `console`. A line that begins with "$ " is a command (a trailing backslash continues it),
the lines up to the next command are what it prints, standard output and standard error together. `...` within such a line
stands for any text, alone on a line for any lines: for what differs from run to run. The commands of one block run in one
shell in ROOT, so a block may start a server in the background and then call it; what is still running is ended with the block.
A block under the comment `<!-- not run: REASON -->` is not run.
"""
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field

SECONDS = 120
MARK = "inkstone-readme-command-ended"
NOT_RUN = re.compile(r"^<!-- not run: \S.* -->$")


@dataclass
class Command:
    line: int
    text: str
    shown: list = field(default_factory=list)


def read_block(lines, start):
    """The commands of the block whose fence is lines[start]; the index after its end; errors."""
    commands, errors = [], []
    index = start + 1
    while index < len(lines) and not lines[index].startswith("```"):
        line = lines[index]
        if line.startswith("$ "):
            command = Command(index + 1, line[2:])
            while command.text.endswith("\\") and index + 1 < len(lines):
                index += 1
                command.text += "\n" + lines[index]
            commands.append(command)
        elif commands:
            commands[-1].shown.append(line)
        else:
            errors.append(f"{index + 1}: output before the first command")
        index += 1
    return commands, index + 1, errors


def read_document(text):
    """The blocks to run, each a list of commands; how many are marked as not run; errors."""
    lines = text.split("\n")
    blocks, not_run, errors = [], 0, []
    index = 0
    while index < len(lines):
        if lines[index].rstrip() != "```console":
            index += 1
            continue
        above = next((line for line in reversed(lines[:index]) if line.strip()), "")
        commands, index, found = read_block(lines, index)
        errors.extend(found)
        for command in commands:
            if command.shown and all(line.strip() in ("...", "") for line in command.shown):
                errors.append(f"{command.line}: shows nothing that could be compared")
        if NOT_RUN.match(above.strip()):
            not_run += 1
        else:
            blocks.append(commands)
    return blocks, not_run, errors


def matches(shown, printed):
    """Whether the printed lines are what the README shows."""
    pattern = ""
    for line in shown:
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ \t]*\n"
    text = "".join(line + "\n" for line in printed)
    return re.fullmatch(pattern, text) is not None


def run_block(root, commands):
    """What each command printed, as lists of lines; None for those that never ended."""
    script = "".join(f"{command.text}\nprintf '\\n{MARK}\\n'\n" for command in commands)
    process = subprocess.Popen(["bash", "-c", script], cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output = read_until_ended(process, len(commands))
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        process.stdout.close()
    pieces = output.split(f"\n{MARK}\n")
    printed = [piece.rstrip("\n").split("\n") if piece.strip("\n") else [] for piece in pieces[:-1]]
    return printed + [None] * (len(commands) - len(printed))


def read_until_ended(process, count):
    """Reads until the last command's mark: a server in the background keeps the pipe open beyond it."""
    def stop(*_):
        raise TimeoutError
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    lines, marks = [], 0
    try:
        for line in process.stdout:
            lines.append(line.decode(errors="replace"))
            marks += lines[-1] == MARK + "\n"
            if marks == count:
                break
    except TimeoutError:
        pass
    finally:
        signal.alarm(0)
    return "".join(lines)


def trimmed(lines):
    """Without empty lines at the end: a README separates its commands by them."""
    lines = list(lines)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def block_errors(root, commands):
    for command, printed in zip(commands, run_block(root, commands)):
        if printed is None:
            yield f"{command.line}: $ {command.text}\n  did not end within {SECONDS} s, or ended the shell"
            return
        shown = trimmed(command.shown)
        if not matches(shown, trimmed(printed)):
            yield (f"{command.line}: $ {command.text}\n" + "".join(f"  shown:   {line}\n" for line in shown) +
                   "".join(f"  printed: {line}\n" for line in printed))


def check(root, document="README.md"):
    with open(os.path.join(root, document), encoding="utf-8") as handle:
        blocks, not_run, errors = read_document(handle.read())
    for commands in blocks:
        errors.extend(block_errors(root, commands))
    return [f"{document}:{error}" for error in errors], sum(map(len, blocks)), not_run


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    errors, ran, not_run = check(root, *sys.argv[2:3])
    for error in errors:
        print(error)
    print(f"check_readme: {ran} commands were run, {len(errors)} differ; {not_run} blocks are marked as not run")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
