#!/bin/sh
# run.sh SECONDS FUZZER...: each fuzzer for some seconds on its seeds, in the build folder (libFuzzer, so
# configure --enable-fuzzing CC=clang). TAP. What it finds is left in fuzz-out/NAME/ there.
set -u
seconds=$1
shift
n=0
status=0
echo "1..$#"
for fuzzer; do
	n=$((n + 1))
	name=$(basename "$fuzzer" _fuzz)
	out=fuzz-out/$name
	mkdir -p "$out/corpus"
	if said=$(timeout $((seconds + 60)) "./$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
		-artifact_prefix="$out/" "$out/corpus" "$top_srcdir/tests/fuzz/corpus/$name" 2>&1); then
		echo "ok $n - $name: $(echo "$said" | grep -aE '^Done|^stat::number' | tail -n 1)"
	else
		echo "not ok $n - $name"
		echo "$said" | grep -aE 'ERROR|SUMMARY|runtime error|^ +#[0-9]+ |Assertion|Test unit|Base64' | head -n 30 | sed 's/^/# /'
		status=1
	fi
done
exit $status
