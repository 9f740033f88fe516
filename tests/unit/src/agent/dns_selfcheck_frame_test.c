#include "src/agent/dns_selfcheck_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Frames as a pod sends them: read as they were written, and cut anywhere, or with any byte
 * changed, read within their bounds. */

static const struct frame_path path = {.from_mac = {2, 1, 2, 3, 4, 5},
	.to_mac = {2, 9, 8, 7, 6, 5},
	.from = 0xac11fffe,
	.to = 0xac110001};
static const uint8_t words[] = "a query";

static struct frame_segment
segment(void)
{
	return (struct frame_segment){.from_port = 4000,
		.to_port = 53,
		.seq = 0xfffffffe,
		.ack = 7,
		.flags = FRAME_SYN | FRAME_ACK,
		.data = words,
		.len = sizeof words};
}

static void
frames_come_back(void **state)
{
	const struct frame_segment s = segment();
	uint8_t bytes[FRAME_MAX];
	struct frame f;

	(void)state;
	for (int tcp = 0; tcp < 2; tcp++) {
		size_t n =
			tcp ? frame_write_tcp(bytes, &path, &s) : frame_write_udp(bytes, &path, &s);

		frame_read(bytes, n, &f);
		assert_int_equal(f.kind, tcp ? FRAME_TCP : FRAME_UDP);
		assert_memory_equal(&f.path, &path, sizeof path);
		assert_int_equal(f.segment.from_port, 4000);
		assert_int_equal(f.segment.to_port, 53);
		assert_int_equal(f.segment.len, sizeof words);
		assert_memory_equal(f.segment.data, words, sizeof words);
		if (tcp) {
			assert_int_equal(f.segment.seq, 0xfffffffe);
			assert_int_equal(f.segment.ack, 7);
			assert_int_equal(f.segment.flags, FRAME_SYN | FRAME_ACK);
		}
	}
	frame_read(bytes, frame_write_arp(bytes, &path, true), &f);
	assert_int_equal(f.kind, FRAME_ARP_TELL);
	assert_int_equal(f.path.from, path.from);
	frame_read(bytes, frame_write_arp(bytes, &path, false), &f);
	assert_int_equal(f.kind, FRAME_ARP_ASK);
	assert_int_equal(f.path.to, path.to);
}

static void
damage_stays_in_bounds(void **state)
{
	const struct frame_segment s = segment();
	uint8_t bytes[FRAME_MAX], whole[FRAME_MAX];
	size_t n = frame_write_tcp(whole, &path, &s);
	struct frame f;

	(void)state;
	for (size_t cut = 0; cut < n; cut++) {
		frame_read(whole, cut, &f);
		assert_int_equal(f.kind, FRAME_OTHER);
	}
	for (size_t at = 0; at < n; at++) {
		for (unsigned v = 0; v < 256; v++) {
			memcpy(bytes, whole, n);
			bytes[at] = (uint8_t)v;
			frame_read(bytes, n, &f);
			if (f.kind == FRAME_TCP || f.kind == FRAME_UDP)
				assert_true(f.segment.data >= bytes &&
					f.segment.data + f.segment.len <= bytes + n);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_come_back), cmocka_unit_test(damage_stays_in_bounds)};

	return cmocka_run_group_tests_name("canary_frame", tests, NULL, NULL);
}
