/* The keeper of resolv.conf on real files in a folder of its own: what the tests of it share. */
#ifndef EDGEWAY_TESTS_UNIT_DNS_RESOLVCONF_RESOLV_BED_H
#define EDGEWAY_TESTS_UNIT_DNS_RESOLVCONF_RESOLV_BED_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "dns/resolvconf/resolvconf.h"

#define ORIGINAL "# by hand\nnameserver 192.0.2.53\nsearch corp.example\noptions ndots:1"

struct fixture {
	char folder[64], path[96], other[96];
	struct resolvconf *rc;
	char *kept; /* what dns_keep holds; survives kill -9 */
	size_t kept_len;
	bool keep_fails;
	char *at_keep; /* the file when dns_keep was given the last record */
};

static inline int
keep_get(void *arg, const char *key, char **data, size_t *len)
{
	struct fixture *f = arg;

	assert_string_equal(key, "resolv.conf");
	if (f->kept == NULL)
		return -ENOENT;
	*data = xmemdup(f->kept, f->kept_len);
	*len = f->kept_len;
	return 0;
}

static inline int
keep_put(void *arg, const char *key, const void *data, size_t len)
{
	struct fixture *f = arg;

	(void)key;
	if (f->keep_fails)
		return -EIO;
	free(f->kept);
	f->kept = xmemdup(data, len);
	f->kept_len = len;
	free(f->at_keep);
	f->at_keep = NULL;
	file_read(f->path, 1 << 20, &f->at_keep, NULL);
	return 0;
}

static inline int
keep_del(void *arg, const char *key)
{
	struct fixture *f = arg;

	(void)key;
	free(f->kept);
	f->kept = NULL;
	return 0;
}

static inline void
open_it(struct fixture *f, bool manage)
{
	struct resolvconf_config c = {.path = f->path,
		.cluster_domain = "cluster.local",
		.manage = manage,
		.keep = {f, keep_get, keep_put, keep_del}};

	assert_int_equal(resolvconf_open(&f->rc, &c, NULL), 0);
}

static inline void
write_file(const char *path, const char *text, unsigned mode)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	chmod(path, mode);
}

static inline void
assert_file(const char *path, const char *text)
{
	char *now;

	assert_int_equal(file_read(path, 1 << 20, &now, NULL), 0);
	assert_string_equal(now, text);
	free(now);
}

/* Our lines are in it. */
static inline bool
is_ours(const char *path)
{
	auto_free char *now = NULL;

	return file_read(path, 1 << 20, &now, NULL) == 0 &&
		strstr(now, "\nnameserver 172.17.0.1\n") != NULL &&
		strstr(now, "\nsearch default.svc.cluster.local svc.cluster.local cluster.local") !=
		NULL &&
		strstr(now, "options ndots:5") != NULL;
}

static inline void
write_ours(struct fixture *f)
{
	struct err err = {0};

	if (resolvconf_write(f->rc, 0xac110001, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(is_ours(f->path));
}

/* kill -9: nothing is restored, only the file and the keep remain. */
static inline void
kill_it(struct fixture *f)
{
	resolvconf_close(&f->rc);
}

static inline void
assert_nothing_left(struct fixture *f)
{
	auto_free char *temporary = xasprintf("%s.edgeway-new", f->path);

	assert_null(f->kept);
	assert_int_equal(access(temporary, F_OK), -1);
}

static inline int
setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof *f);

	strcpy(f->folder, "/tmp/edgeway-resolv-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	sprintf(f->path, "%s/resolv.conf", f->folder);
	sprintf(f->other, "%s/stub", f->folder);
	*state = f;
	return 0;
}

static inline int
teardown(void **state)
{
	struct fixture *f = *state;

	resolvconf_close(&f->rc);
	unlink(f->path);
	unlink(f->other);
	assert_int_equal(rmdir(f->folder), 0);
	free(f->kept);
	free(f->at_keep);
	free(f);
	return 0;
}

#endif
