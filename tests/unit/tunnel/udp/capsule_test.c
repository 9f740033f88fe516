#include "tunnel/udp/capsule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tunnel/h2/udp_path.h"

/* Datagrams as bytes of a stream, and the path that names their target. */

static void
add_datagram(struct buf *to, const void *data, size_t n)
{
	uint8_t head[CAPSULE_HEAD_MAX];

	buf_add(to, head, capsule_head(head, n));
	buf_add(to, data, n);
}

/* Sizes around those at which a length takes another byte, in pieces of every size: what was put in
 * comes out, no less and no more. */
static void
boundaries_are_kept(void **state)
{
	static const size_t sizes[] = {
		0, 1, 62, 63, 64, 1400, 16382, 16383, 16384, 65507, 0, DATAGRAM_MAX, 5};
	static const size_t pieces[] = {1, 2, 3, 7, 100, 16375, 1 << 20};
	static uint8_t data[DATAGRAM_MAX];
	struct buf wire;

	(void)state;
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i * 31 + i / 256);
	buf_init(&wire, BUF_UNLIMITED);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		add_datagram(&wire, data, sizes[i]);
	for (size_t k = 0; k < ARRAY_LEN(pieces); k++) {
		struct capsule_reader r = {0};
		struct capsule_datagram got;
		size_t seen = 0;

		for (size_t at = 0; at < buf_len(&wire); at += pieces[k]) {
			const void *from = buf_at(&wire) + at;
			size_t n = MIN(pieces[k], buf_len(&wire) - at);

			while (capsule_read(&r, &from, &n, &got) == CAPSULE_DATAGRAM) {
				assert_int_equal(got.len, sizes[seen]);
				assert_memory_equal(got.data, data, got.len);
				seen++;
			}
			assert_int_equal(n, 0);
		}
		assert_int_equal(seen, ARRAY_LEN(sizes));
		capsule_fini(&r);
	}
	buf_fini(&wire);
}

/* What one writes as "<datagram>" per datagram that comes out of these bytes; "!" where they are no
 * capsules. */
static const char *
read_all(const char *bytes, size_t n)
{
	static char text[256];
	struct capsule_reader r = {0};
	struct capsule_datagram got;
	const void *from = bytes;
	enum capsule_result result;
	size_t at = 0;

	text[0] = '\0';
	while ((result = capsule_read(&r, &from, &n, &got)) == CAPSULE_DATAGRAM)
		at += (size_t)snprintf(text + at, sizeof text - at, "<%.*s>", (int)got.len,
			got.len > 0 ? (const char *)got.data : "");
	if (result == CAPSULE_BAD) {
		strcat(text, "!");
		assert_int_equal(capsule_read(&r, &from, &n, &got), CAPSULE_BAD);
	}
	capsule_fini(&r);
	return text;
}
#define READ(bytes) read_all(bytes, sizeof(bytes) - 1)

/* In one piece and in single bytes; what is no such number is passed over. */
static void
those_dropped_are_counted(void **state)
{
	static const uint64_t counts[] = {0, 1, 63, 64, 70000, 1ull << 40};
	uint8_t wire[256] = "\x5d\x09\x00\x5d\x09\x01\x40\x5d\x09\x02\x01\xff";
	size_t end = 12;
	uint64_t all = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		end += capsule_dropped(wire + end, counts[i]);
		all += counts[i];
	}
	memcpy(wire + end, "\x00\x02\x00x", 4);
	end += 4;
	for (size_t piece = 1; piece <= end; piece += end - 1) {
		struct capsule_reader r = {0};
		struct capsule_datagram got;
		unsigned seen = 0;

		for (size_t at = 0; at < end; at += piece) {
			const void *from = wire + at;
			size_t n = piece;

			while (capsule_read(&r, &from, &n, &got) == CAPSULE_DATAGRAM)
				seen++;
			assert_int_equal(n, 0);
		}
		assert_int_equal(seen, 1);
		assert_int_equal(r.dropped, all);
		capsule_fini(&r);
	}
}

static void
others_are_passed_over(void **state)
{
	(void)state;
	assert_string_equal(READ("\x00\x03\x00"
				 "ab"
				 "\x00\x02\x00"
				 "c"),
		"<ab><c>");
	assert_string_equal(READ("\x3f\x02"
				 "xx"
				 "\x00\x02\x00"
				 "c"),
		"<c>"); /* another type */
	assert_string_equal(READ("\x3f\x00"
				 "\x00\x02\x00"
				 "c"),
		"<c>"); /* an empty one */
	assert_string_equal(READ("\x00\x03\x02"
				 "xx"
				 "\x00\x02\x00"
				 "c"),
		"<c>"); /* another context */
	assert_string_equal(READ("\x00\x02\x40\x01"
				 "\x00\x02\x00"
				 "c"),
		"<c>"); /* of two bytes, and empty */
	/* numbers that are longer than they need be are numbers all the same */
	assert_string_equal(READ("\x40\x00\x80\x00\x00\x03\x40\x00"
				 "c"),
		"<c>");
	assert_string_equal(READ("\x00\x01\x00"), "<>");
	assert_string_equal(READ("\x00\x05\x00"
				 "ab"),
		""); /* not whole */
	/* longer than anybody will ever send: passed over, and nothing is held for it */
	assert_string_equal(READ("\x01\xff\xff\xff\xff\xff\xff\xff\xff"
				 "abc"),
		"");
}

static void
what_is_no_datagram_ends_it(void **state)
{
	(void)state;
	assert_string_equal(READ("\x00\x02\x00"
				 "c"
				 "\x00\x00"
				 "\x00\x02\x00"
				 "d"),
		"<c>!"); /* no context */
	assert_string_equal(READ("\x00\x01\x40\x00"), "!"); /* the context goes beyond it */
	assert_string_equal(READ("\x00\x07\xc0\x00\x00\x00\x00\x00\x00\x00"
				 "abc"),
		"!");
	assert_string_equal(READ("\x00\x80\x00\xff\xf9\x00"), "!"); /* 65528 bytes */
	assert_string_equal(READ("\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00"), "!");
}

/* --- paths ---------------------------------------------------------------------------------- */

static const char *
build(const char *authority)
{
	static char path[UDP_PATH_MAX];

	return udp_path_build(authority, path, sizeof path) ? path : "-";
}

static const char *
parse(const char *path)
{
	static char authority[262];

	return udp_path_parse(path, authority, sizeof authority) ? authority : "-";
}

#define UDP "/.well-known/masque/udp/"

static void
paths(void **state)
{
	static char name[254 + 3], longer[400];

	(void)state;
	assert_string_equal(build("edge-1:53"), UDP "edge-1/53/");
	assert_string_equal(build("192.0.2.1:65535"), UDP "192.0.2.1/65535/");
	assert_string_equal(build("[2001:db8::1]:53"), UDP "2001%3Adb8%3A%3A1/53/");
	assert_string_equal(parse(UDP "edge-1/53/"), "edge-1:53");
	assert_string_equal(parse(UDP "2001%3Adb8%3a%3A1/53/"), "[2001:db8::1]:53");
	assert_string_equal(parse(UDP "%65dge-1/53/"), "edge-1:53");
	assert_string_equal(build("edge-1"), "-");
	assert_string_equal(build(":53"), "-");
	assert_string_equal(build("edge-1:"), "-");
	assert_string_equal(build("edge-1:5x"), "-");
	assert_string_equal(build("edge-1:123456"), "-");
	static const char *const wrong[] = {"", "/", UDP, UDP "a", UDP "a/", UDP "a/53",
		UDP "a/53/x", UDP "/53/", UDP "a//", UDP "a/5a/", UDP "a/123456/", UDP "a b/53/",
		UDP "a%/53/", UDP "a%2/53/", UDP "a%2F/53/", UDP "a%00/53/", UDP "[::1]/53/",
		UDP "a@b/53/", "/other/a/53/"};
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		assert_string_equal(parse(wrong[i]), "-");
	memset(name, 'a', 253);
	strcpy(name + 253, ":1");
	assert_string_equal(parse(build(name)), name);
	snprintf(longer, sizeof longer, UDP "%.253s%.10s/53/", name, name);
	assert_string_equal(parse(longer), "-");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(boundaries_are_kept),
		cmocka_unit_test(those_dropped_are_counted),
		cmocka_unit_test(others_are_passed_over),
		cmocka_unit_test(what_is_no_datagram_ends_it),
		cmocka_unit_test(paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
