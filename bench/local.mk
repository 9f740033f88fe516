EXTRA_PROGRAMS += bench/floor
bench_floor_SOURCES = bench/floor.c
bench_floor_LDADD = base/libbase.a
EXTRA_DIST += bench/frame.py bench/bench_http.py bench/RESULTS.md

# make bench          the whole comparison (root; namespaces of its own)
# make bench BENCH=smoke   one short round, to see that it runs
.PHONY: bench
bench: all bench/floor
	cd $(abs_top_builddir) && /usr/bin/python3 $(abs_top_srcdir)/bench/bench_http.py $(if $(filter smoke,$(BENCH)),--smoke)
