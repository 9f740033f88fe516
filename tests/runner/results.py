"""What the logs of the stages say: how many tests passed and failed, which failed, and the lines that explain it. Pure: text in, values out."""
import re

COMPLAINT = re.compile(r"^(FAIL|ERROR|XPASS):|^not ok|error:|ERROR: AddressSanitizer|runtime error|"
                       r"WARNING: ThreadSanitizer|^make: \*\*\*|^FAILED:")
EXPLAINS = re.compile(r"^not ok|^# (?!remark)|^# *Assert|ERROR:|SUMMARY|runtime error|^ +#\d+ ")


class Count:
    """passed, failed: how many tests; names: of those that failed."""

    def __init__(self, passed=0, failed=0, names=()):
        self.passed, self.failed, self.names = passed, failed, list(names)


def count_automake(text):
    """The summaries of `make check`: the last one counts."""
    def last(word):
        found = re.findall(rf"^# {word}: +(\d+)$", text, re.M)
        return int(found[-1]) if found else 0
    names = re.findall(r"^(?:FAIL|ERROR|XPASS): (\S+(?: .*)?)$", text, re.M)
    return Count(last("PASS"), sum(map(last, ("FAIL", "ERROR", "XPASS"))), dict.fromkeys(names))


def count_tap(text):
    names = re.findall(r"^not ok \d+(?: - )?(.*)", text, re.M)
    return Count(len(re.findall(r"^ok \d+", text, re.M)), len(names), names)


def count_pytest(text):
    """Its last line."""
    end = (re.findall(r"^=+ .*\bin [\d.]+s.*=+$", text, re.M) or [""])[-1]

    def said(what):
        return sum(map(int, re.findall(rf"(\d+) {what}\b", end)))
    names = re.findall(r"^(?:FAILED|ERROR) (\S+?::\w+(?:\[.*?\](?= - |$))?)", text, re.M)
    return Count(said("passed"), said("failed") + said("errors?"), dict.fromkeys(names))


def count_none(text):
    return Count()


COUNT = {"automake": count_automake, "tap": count_tap, "pytest": count_pytest, "one": count_none}


def settle(kind, text, status):
    """The stage's Count: one that breaks without a failed test is one failure, one that has no tests and ends well is one pass."""
    count = COUNT[kind](text)
    if status != 0 and count.failed == 0:
        count.failed = 1
        count.names = [f"status {status}"]
    elif status == 0 and count.passed + count.failed == 0:
        count.passed = 1
    return count


def complaints(lines):
    return [line for line in lines if COMPLAINT.search(line)]


def explain_unit(text, most=20):
    """Of the log of a unit test that failed: what explains it."""
    return [line for line in text.splitlines() if EXPLAINS.search(line)][:most]


def slowest(told, most=20):
    """told: lines `SECONDS NAME` of all stages. The slowest first."""
    rows = []
    for line in told:
        seconds, _, name = line.strip().partition(" ")
        rows.append((float(seconds), name))
    return sorted(rows, reverse=True)[:most]
