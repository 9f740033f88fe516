base_libbase_a_SOURCES += \
	base/pki.c base/pki.h \
	base/pki_issue.c \
	base/pki_openssl.h \
	base/pki_tls.c base/pki_tls.h

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/pki_test
TESTS += tests/unit/pki_test
tests_unit_pki_test_SOURCES = tests/unit/pki_test.c
tests_unit_pki_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
endif
