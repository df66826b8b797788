"""compare_golden.py GOLDEN PROMPTS TEMP -- COMMAND…: runs the command for the
first PROMPTS runs of a golden file and compares greedy ids, up to the first
token whose margin is a close call (0.01)."""
import json
import subprocess
import sys

CLOSE = 0.01
golden, prompts = sys.argv[1], int(sys.argv[2])
command = sys.argv[sys.argv.index("--") + 1:]
with open(golden, encoding="utf-8") as file:
    runs = json.load(file)["runs"][:prompts]
assert len(runs) == prompts, f"expected {prompts} runs, got {len(runs)}"
for run in runs:
    want = run["ids"]
    done = subprocess.run(
        command + ["--tokens", ",".join(map(str, run["prompt"])),
                   "--max-new-tokens", str(len(want))],
        stdout=subprocess.PIPE, check=True, text=True)
    got = [int(i) for i in done.stdout.strip().splitlines()[-1].split(",")]
    assert len(got) == len(want), f"expected {len(want)} ids, got {len(got)}"
    sure = next((i for i, m in enumerate(run["margins"]) if m < CLOSE),
                len(want))
    for i in range(sure):
        if got[i] != want[i]:
            sys.exit(f"token {i}: expected {want[i]}, got {got[i]} (margin "
                     f"{run['margins'][i]})")
print(f"{len(runs)} prompts equal up to close calls")
