EXTRA_PROGRAMS += bench/floor bench/echo
bench_floor_SOURCES = bench/floor.c
bench_floor_LDADD = base/libbase.a
bench_echo_SOURCES = bench/echo.c
bench_echo_LDADD = base/libbase.a
EXTRA_DIST += bench/frame.py bench/bench_dns.py bench/bench_http.py bench/RESULTS.md

# make bench          the whole comparison (root; namespaces of its own)
# make bench BENCH=smoke   one short round, to see that it runs
.PHONY: bench
bench: all bench/floor bench/echo
	cd $(abs_top_builddir) && for b in http dns; do \
		/usr/bin/python3 $(abs_top_srcdir)/bench/bench_$$b.py $(if $(filter smoke,$(BENCH)),--smoke) || exit 1; \
	done
