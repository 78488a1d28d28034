#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a bench and keeps what it printed.

  bench/results/record.py WHAT MACHINE LOAD COMMAND...
"""
import datetime
import json
import os
import subprocess
import sys


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    what, machine, load = sys.argv[1:4]
    command = sys.argv[4:] + ["--json"]
    document = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    day = datetime.date.today().isoformat()
    words = [os.path.basename(word) if os.sep in word else word for word in command]
    record = {"date": day, "machine": machine, "load": load, "command": " ".join(words), "result": document}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{day}-{what}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
        file.write("\n")
    print(path)


if __name__ == "__main__":
    main()
