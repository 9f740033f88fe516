#include "model/digest.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/core/hash.h"

static void
toggling_twice_leaves_nothing(void **state)
{
	struct digests d = {0}, zero = {0};

	(void)state;
	digest_toggle(&d, "default/web", 11, 42);
	assert_true(d.bucket[digest_bucket("default/web", 11)] == hash64("default/web", 11, 42));
	digest_toggle(&d, "default/db", 10, 43);
	digest_toggle(&d, "default/web", 11, 42);
	digest_toggle(&d, "default/db", 10, 43);
	assert_memory_equal(&d, &zero, sizeof d);
}

static void
a_changed_view_changes_its_bucket_only(void **state)
{
	struct digests a = {0}, b = {0};
	unsigned differ = 0;

	(void)state;
	digest_toggle(&a, "default/web", 11, 1);
	digest_toggle(&b, "default/web", 11, 2);
	for (size_t i = 0; i < DIGEST_BUCKETS; i++)
		differ += a.bucket[i] != b.bucket[i];
	assert_int_equal(differ, 1);
}

static void
buckets_travel(void **state)
{
	struct digests d, back;
	struct err err = {0};
	auto_buf struct buf out;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	for (size_t i = 0; i < DIGEST_BUCKETS; i++)
		d.bucket[i] = hash64(&i, sizeof i, 0);
	digests_build(&out, &d);
	assert_int_equal(digests_parse(&back, buf_at(&out), buf_len(&out), &err), 0);
	assert_memory_equal(&d, &back, sizeof d);
	/* One digit less, one digit wrong. */
	memmove(out.data + out.start + 12, out.data + out.start + 13, buf_len(&out) - 13);
	assert_int_equal(digests_parse(&back, buf_at(&out), buf_len(&out) - 1, &err), -EBADMSG);
	buf_consume(&out, buf_len(&out));
	digests_build(&out, &d);
	out.data[out.start + 20] = 'G';
	assert_int_equal(digests_parse(&back, buf_at(&out), buf_len(&out), &err), -EBADMSG);
	assert_non_null(strstr(err.text, "bucket 0"));
}

static void
wanted_buckets_travel(void **state)
{
	bool want[DIGEST_BUCKETS] = {[0] = true, [77] = true, [255] = true}, back[DIGEST_BUCKETS];
	struct err err = {0};
	auto_buf struct buf out;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	digest_want_build(&out, want);
	assert_string_equal(buf_str(&out), "{\"buckets\":[0,77,255]}");
	assert_int_equal(digest_want_parse(back, buf_at(&out), buf_len(&out), &err), 0);
	assert_memory_equal(want, back, sizeof want);
	assert_int_equal(digest_want_parse(back, "{\"buckets\":[],\"synced\":true}", 28, &err), 0);
	assert_false(back[0]);
	assert_int_equal(digest_want_parse(back, "{\"buckets\":[256]}", 17, &err), -EBADMSG);
	assert_int_equal(digest_want_parse(back, "{}", 2, &err), -EBADMSG);
}

static void
entries_travel(void **state)
{
	char key[] = "default/web", other[] = "kube-system/dns";
	struct digest_entry e[] = {{key, 0x0123456789abcdef}, {other, 0}}, *back = NULL;
	bool of[DIGEST_BUCKETS] = {[3] = true}, of_back[DIGEST_BUCKETS];
	struct err err = {0};
	auto_buf struct buf out;
	size_t n;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	digest_entries_build(&out, of, e, 2);
	assert_string_equal(buf_str(&out),
		"{\"buckets\":[3],\"services\":{\"default/web\":\"0123456789abcdef\","
		"\"kube-system/dns\":\"0000000000000000\"}}");
	assert_int_equal(
		digest_entries_parse(of_back, &back, &n, buf_at(&out), buf_len(&out), &err), 0);
	assert_int_equal(n, 2);
	assert_memory_equal(of, of_back, sizeof of);
	assert_string_equal(back[0].key, key);
	assert_true(back[0].digest == e[0].digest);
	digest_entries_free(&back, n);
	assert_null(back);
}

static void
bad_entries_are_refused(void **state)
{
	static const char *const bad[] = {
		"{\"services\":{}}",
		"{\"buckets\":[1],\"services\":{\"a/b\":\"0123456789abcdef\",\"web\":\"0\"}}",
		"{\"buckets\":[1],\"services\":{\"default/Web\":\"0123456789abcdef\"}}",
		"{\"buckets\":[1],\"services\":{\"default/web\":\"0123456789ABCDEF\"}}",
		"{\"buckets\":[1],\"services\":{\"default/web\":17}}",
		"{\"buckets\":[1],\"services\":[]}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		bool of[DIGEST_BUCKETS];
		struct digest_entry *e;
		struct err err = {0};
		size_t n;

		assert_int_equal(
			digest_entries_parse(of, &e, &n, bad[i], strlen(bad[i]), &err), -EBADMSG);
		assert_null(e);
		assert_true(err.text[0] != '\0');
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(toggling_twice_leaves_nothing),
		cmocka_unit_test(a_changed_view_changes_its_bucket_only),
		cmocka_unit_test(buckets_travel),
		cmocka_unit_test(wanted_buckets_travel),
		cmocka_unit_test(entries_travel),
		cmocka_unit_test(bad_entries_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
