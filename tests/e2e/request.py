"""Asks one HTTP question from within the cluster's network, where a test's own process is not.

Usage: request.py METHOD URL, a JSON body on standard input, the token in TOKEN. Prints the status
on the first line and the body after it.
"""

import os
import sys
import urllib.error
import urllib.request


def main() -> None:
    """Ask, and print the answer, whatever it is."""
    method, url = sys.argv[1:]
    body = sys.stdin.buffer.read() or None
    asked = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
    if token := os.environ.get("TOKEN"):
        asked.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            print(answer.status, answer.read().decode(), sep="\n")
    except urllib.error.HTTPError as refused:
        print(refused.code, refused.read().decode(), sep="\n")


if __name__ == "__main__":
    main()
