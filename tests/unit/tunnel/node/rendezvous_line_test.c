/* The lines of a rendezvous: what is one, and what is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tunnel/node/rendezvous_line.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static ssize_t
read_line(const char *text, struct rendezvous_line *line)
{
	return rendezvous_line_read(text, strlen(text), line);
}

static void
round_trips(void **state)
{
	static const char *const lines[] = {"meet edge-2\n", "come " ID "\n",
		"go 192.0.2.21:40000 192.0.2.22:50000 12\n",
		"go [2001:db8::1]:1 [2001:db8::2]:2 0\n",
		"no the other node has no tunnel to any hub now\n"};
	struct rendezvous_line line;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		auto_buf struct buf out;

		buf_init(&out, BUF_UNLIMITED);
		assert_int_equal(read_line(lines[i], &line), strlen(lines[i]));
		rendezvous_line_write(&line, &out);
		assert_string_equal(buf_str(&out), lines[i]);
	}
	assert_int_equal(read_line("go 192.0.2.21:40000 192.0.2.22:50000 12\n", &line), 40);
	assert_int_equal(line.word, RENDEZVOUS_GO);
	assert_int_equal(addr_port(&line.own), 40000);
	assert_int_equal(addr_port(&line.other), 50000);
	assert_int_equal(line.delay_ms, 12);
}

static void
in_pieces(void **state)
{
	static const char text[] = "meet edge-2\nmore";
	struct rendezvous_line line;

	(void)state;
	for (size_t n = 0; n < strlen("meet edge-2\n"); n++)
		assert_int_equal(rendezvous_line_read(text, n, &line), 0);
	assert_int_equal(rendezvous_line_read(text, strlen(text), &line), strlen("meet edge-2\n"));
	assert_string_equal(line.text, "edge-2");
}

static void
wrong_ones(void **state)
{
	static const char *const lines[] = {"\n", "meet\n", "meet \n", " meet x\n", "MEET x\n",
		"stay x\n", "come 0\n", "come " ID "0\n", "come 0123456789ABCDEF" ID "\n", "go\n",
		"go 192.0.2.1:1\n", "go 192.0.2.1:1 192.0.2.2:2\n", "go 192.0.2.1:1 192.0.2.2:2 \n",
		"go 192.0.2.1:1 192.0.2.2:2 5001\n", "go 192.0.2.1:1 192.0.2.2:2 1 2\n",
		"go 192.0.2.1:1 192.0.2.2:2 -1\n", "go 192.0.2.1:0 192.0.2.2:2 1\n",
		"go 192.0.2.1:1 192.0.2.2 1\n", "go 192.0.2.1:1 unix:/x 1\n",
		"go a.example:1 192.0.2.2:2 1\n", "no \x7f\n", "no a\rb\n", "no \xc3\xa4\n"};
	char wide[RENDEZVOUS_LINE_MAX + 2];
	struct rendezvous_line line;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		assert_int_equal(read_line(lines[i], &line), -EBADMSG);
	memset(wide, 'x', sizeof wide);
	assert_int_equal(rendezvous_line_read(wide, RENDEZVOUS_LINE_MAX, &line), 0);
	assert_int_equal(rendezvous_line_read(wide, RENDEZVOUS_LINE_MAX + 1, &line), -EBADMSG);
	memcpy(wide, "meet ", 5);
	wide[5 + 254] = '\n';
	assert_int_equal(rendezvous_line_read(wide, sizeof wide, &line), -EBADMSG);
	wide[5 + 253] = '\n';
	assert_int_equal(rendezvous_line_read(wide, sizeof wide, &line), 5 + 254);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(round_trips),
		cmocka_unit_test(in_pieces), cmocka_unit_test(wrong_ones)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
