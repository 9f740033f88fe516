# What is not a unit test of one folder: lints, fuzzers, namespace tests.

# --- fuzzers: with libFuzzer under --enable-fuzzing, else with a main that replays seeds ---------
if FUZZING
EXTRA_PROGRAMS += $(FUZZERS)
FUZZ_MAIN =
FUZZ_LIBS = -fsanitize=fuzzer
else
check_PROGRAMS += $(FUZZERS)
FUZZ_MAIN = tests/fuzz/libreplay.a
FUZZ_LIBS = tests/fuzz/libreplay.a
check_LIBRARIES += tests/fuzz/libreplay.a
tests_fuzz_libreplay_a_SOURCES = tests/fuzz/main.c
TESTS += tests/fuzz/replay.sh
tests/fuzz/replay.log: $(FUZZERS) $(wildcard $(top_srcdir)/tests/fuzz/corpus/*)
endif
# Target-specific, so that a fuzzer's own lines name nothing but its source and its folder's library.
$(FUZZERS): LIBS += $(FUZZ_LIBS)
$(FUZZERS): $(FUZZ_MAIN)

# make fuzz FUZZ_SECONDS=600   so long each
# make fuzz FUZZ_TOTAL=120     so long together, most where the code is new
FUZZ_SECONDS = 20
fuzz: $(FUZZERS)
	@top_srcdir='$(abs_top_srcdir)' /usr/bin/python3 $(srcdir)/tests/fuzz/run.py \
		$(if $(FUZZ_TOTAL),--total $(FUZZ_TOTAL),--each $(FUZZ_SECONDS)) $(FUZZERS)
.PHONY: fuzz

# Tests are run again when what they read has changed (make check RECHECK_LOGS=).
$(addprefix tests/unit/,$(addsuffix _test.log,cluster cluster_pod cluster_random detours hosts_text kube kube_rule neighbours neighbours_index reflector ways)): \
	$(wildcard $(top_srcdir)/tests/data/*/*)

# --- lints --------------------------------------------------------------------
if !EMULATED
TESTS += tests/lint/lint.py
endif

# --- namespace tests: root, Debian's pytest ---------------------------------------
check-net: all
	top_builddir='$(abs_top_builddir)' /usr/bin/python3 -m pytest -p no:cacheprovider -q $(srcdir)/tests/net
.PHONY: check-net

# --- Debian packages: root, debootstrap --------------------------------------------
check-packages:
	top_builddir='$(abs_top_builddir)' /usr/bin/python3 -m pytest -p no:cacheprovider -q $(srcdir)/tests/packages
.PHONY: check-packages
EXTRA_DIST += tests/packages/booted.py tests/packages/conftest.py tests/packages/edge.py tests/packages/test_commands.py tests/packages/test_image_build.py tests/packages/test_packages.py \
	tests/packages/test_release.py tests/packages/test_resolvers.py tests/packages/test_systemd.py tests/packages/tree.py

AM_TESTS_ENVIRONMENT += FUZZERS='$(FUZZERS)'; export FUZZERS;
EXTRA_DIST += tests/run tests/driver tests/map tests/seen tests/pre-commit tests/emulate tests/emulated \
	tests/fuzz/README.md tests/fuzz/replay.sh tests/fuzz/run.py tests/fuzz/ledger.py tests/fuzz/ledger.tsv tests/fuzz/corpus tests/mutation tests/lint/lint.py \
	tests/runner/changed.py tests/runner/plugin.py tests/runner/process.py tests/runner/results.py tests/runner/run.py \
	tests/runner/selftest.py tests/runner/stages.py
EXTRA_DIST += tests/attacks tests/net
dist-hook:
	find $(distdir)/tests -name __pycache__ -prune -exec rm -rf {} +

# --- hub and agents against a scripted world: EDGEWAY_SEEDS says how many histories ---------------
if HAVE_CMOCKA
FAKE_NET = tests/fake/net.c tests/fake/net.h tests/fake/resolve.c
check_PROGRAMS += tests/unit/hub/sync/converge_test
TESTS += tests/unit/hub/sync/converge_test
tests_unit_hub_sync_converge_test_SOURCES = tests/unit/hub/sync/converge_test.c $(FAKE_NET)
tests_unit_hub_sync_converge_test_LDADD = hub/libhub.a tunnel/libtunnel.a $(NGHTTP2_LIBS) $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_sync_converge_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mono_ms -Wl,--wrap=wall_ms -Wl,--wrap=random_bytes

# --- objects of all shapes, from the API server's bytes to an agent's snapshot: EDGEWAY_OBJECTS says how many ---
check_PROGRAMS += tests/unit/hub/kube/objects_random_test
TESTS += tests/unit/hub/kube/objects_random_test
tests_unit_hub_kube_objects_random_test_SOURCES = tests/unit/hub/kube/objects_random_test.c $(FAKE_NET)
tests_unit_hub_kube_objects_random_test_LDADD = $(tests_unit_hub_sync_converge_test_LDADD)
tests_unit_hub_kube_objects_random_test_LDFLAGS = $(tests_unit_hub_sync_converge_test_LDFLAGS)
endif
