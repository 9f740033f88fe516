/*
 * The hub's certificates in a folder of their own under TMPDIR. cmocka's setup and teardown are
 * here.
 *
 *	b->config.names = names;
 *	bed_open(b);
 *	bed_sign(b, "edge-1", &cert, serial);
 */
#ifndef EDGEWAY_TESTS_UNIT_HUB_IDENTITY_CERTS_BED_H
#define EDGEWAY_TESTS_UNIT_HUB_IDENTITY_CERTS_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hub/identity/certs.h"

struct bed {
	char dir[64];
	struct certs *certs;
	struct certs_config config;
};

int bed_setup(void **state);
int bed_teardown(void **state);
int64_t bed_now(void);
char *bed_path(struct bed *b, const char *name);
/* As a restart of the hub: what was open is closed first. */
void bed_open(struct bed *b);
/* Issues and records the certificate; returns 0, or -errno. */
int bed_sign_csr(struct bed *b, const char *node, const char *csr, char **cert, struct err *err);
/* The same for a new key; asserts that it succeeds. */
void bed_sign(struct bed *b, const char *node, char **cert, char serial[PKI_SERIAL_TEXT]);

#endif
