#!/bin/sh
# Feeds every fuzzer its seeds. TAP; FUZZERS, top_srcdir and top_builddir come from the Makefile, as EMULATE
# (what starts a program of another architecture; empty: nothing).
set -u
n=0
status=0
set -- ${FUZZERS:-}
echo "1..$#"
for fuzzer; do
	n=$((n + 1))
	name=$(basename "$fuzzer" _fuzz)
	seeds=$top_srcdir/tests/fuzz/corpus/$name
	if said=$(timeout 120 ${EMULATE:-} "$top_builddir/$fuzzer" "$seeds" 2>&1); then
		echo "ok $n - $name: $(echo "$said" | tail -n 1)"
	else
		echo "not ok $n - $name"
		echo "$said" | head -n 30 | sed 's/^/# /'
		status=1
	fi
done
exit $status
