#include "base/http/h2_preface.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

/* A real client's session says what is read here, and reads what is answered. */
struct client {
	nghttp2_session *ng;
	struct buf out;
	int status, goaways;
	char grpc[16], message[128];
};

static ssize_t
on_send(nghttp2_session *ng, const uint8_t *data, size_t n, int flags, void *arg)
{
	struct client *c = arg;

	(void)ng;
	(void)flags;
	buf_add(&c->out, data, n);
	return (ssize_t)n;
}

static int
on_field(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
	const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
	struct client *c = arg;

	(void)ng;
	(void)frame;
	(void)flags;
	if (name_len == 7 && memcmp(name, ":status", 7) == 0)
		c->status = (value[0] - '0') * 100 + (value[1] - '0') * 10 + value[2] - '0';
	if (name_len == 11 && memcmp(name, "grpc-status", 11) == 0)
		memcpy(c->grpc, value, MIN(value_len, sizeof c->grpc - 1));
	if (name_len == 12 && memcmp(name, "grpc-message", 12) == 0)
		memcpy(c->message, value, MIN(value_len, sizeof c->message - 1));
	return 0;
}

static int
on_frame(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct client *c = arg;

	(void)ng;
	c->goaways += frame->hd.type == NGHTTP2_GOAWAY;
	return 0;
}

static void
client_init(struct client *c)
{
	nghttp2_session_callbacks *calls;

	*c = (struct client){0};
	buf_init(&c->out, BUF_UNLIMITED);
	assert_int_equal(nghttp2_session_callbacks_new(&calls), 0);
	nghttp2_session_callbacks_set_send_callback(calls, on_send);
	nghttp2_session_callbacks_set_on_header_callback(calls, on_field);
	nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
	assert_int_equal(nghttp2_session_client_new(&c->ng, calls, c), 0);
	nghttp2_session_callbacks_del(calls);
	nghttp2_submit_settings(c->ng, NGHTTP2_FLAG_NONE, NULL, 0);
	nghttp2_session_send(c->ng);
}

static void
client_fini(struct client *c)
{
	nghttp2_session_del(c->ng);
	buf_fini(&c->out);
}

static nghttp2_nv
pair(const char *name, const char *value)
{
	return (nghttp2_nv){
		.name = (uint8_t *)(uintptr_t)name,
		.value = (uint8_t *)(uintptr_t)value,
		.namelen = strlen(name),
		.valuelen = strlen(value),
	};
}

static void
ask(struct client *c, const char *authority, const char *filler)
{
	nghttp2_nv nv[6] = {pair(":method", "POST"), pair(":scheme", "http"), pair(":path", "/a/b"),
		pair("filler", filler), pair(":authority", authority)};
	nghttp2_nv swap = nv[3];

	nv[3] = nv[4];
	nv[4] = swap;
	nghttp2_submit_request(c->ng, NULL, nv, 5, NULL, NULL);
	nghttp2_session_send(c->ng);
}

static void
a_request_says_whom_it_asks_for(void **state)
{
	auto_free char *filler = xmalloc(20001);
	struct h2_preface o = {0};
	struct client c;
	size_t waits;

	(void)state;
	memset(filler, 'f', 20000);
	filler[20000] = '\0'; /* more than one frame: CONTINUATION */
	client_init(&c);
	waits = buf_len(&c.out);
	ask(&c, "edge-1:50051", filler);
	for (size_t n = 1; n < buf_len(&c.out); n++) {
		enum h2_preface_state now;

		o = (struct h2_preface){0};
		now = h2_preface_read(buf_at(&c.out), n, &o);
		assert_true(
			now == (n < waits || o.stream != 0 ? H2_PREFACE_MORE : H2_PREFACE_WAITS));
	}
	o = (struct h2_preface){0};
	assert_int_equal(h2_preface_read(buf_at(&c.out), buf_len(&c.out), &o), H2_PREFACE_ASKED);
	assert_string_equal(o.authority, "edge-1:50051");
	assert_int_equal(o.stream, 1);
	assert_int_equal(o.ack_at, 0);
	client_fini(&c);
}

static void
who_waits_gets_settings_and_acknowledges_them(void **state)
{
	struct buf settings;
	struct h2_preface o = {0};
	struct client c;
	size_t at;

	(void)state;
	buf_init(&settings, BUF_UNLIMITED);
	client_init(&c);
	assert_int_equal(h2_preface_read(buf_at(&c.out), buf_len(&c.out), &o), H2_PREFACE_WAITS);
	at = buf_len(&c.out);
	h2_preface_settings(&settings);
	assert_int_equal(
		nghttp2_session_mem_recv(c.ng, (uint8_t *)buf_at(&settings), buf_len(&settings)),
		(ssize_t)buf_len(&settings));
	ask(&c, "edge-1", "x");
	assert_int_equal(h2_preface_read(buf_at(&c.out), buf_len(&c.out), &o), H2_PREFACE_ASKED);
	assert_int_equal(o.ack_at, at);
	assert_string_equal(o.authority, "edge-1");
	client_fini(&c);
	buf_fini(&settings);
}

/* Who sends its bytes one by one must not make us read all of them again for each. */
static void
no_byte_is_read_twice(void **state)
{
	auto_free char *filler = xmalloc(20001);
	enum h2_preface_state now = H2_PREFACE_MORE;
	struct h2_preface o = {0};
	struct client c;
	struct buf settings;
	size_t asked, fields = 0;
	char *bytes;

	(void)state;
	memset(filler, 'f', 20000);
	filler[20000] = '\0';
	client_init(&c);
	fields = buf_len(&c.out);
	ask(&c, "edge-1", filler);
	asked = buf_len(&c.out);
	buf_init(&settings, BUF_UNLIMITED);
	h2_preface_settings(&settings);
	nghttp2_session_mem_recv(c.ng, (uint8_t *)buf_at(&settings), buf_len(&settings));
	nghttp2_session_send(c.ng);
	bytes = buf_at(&c.out);
	for (size_t n = 1; n <= buf_len(&c.out); n++) {
		now = h2_preface_read(bytes, n, &o);
		assert_int_equal(now,
			n >= asked                            ? H2_PREFACE_ASKED
				: n < fields || o.stream != 0 ? H2_PREFACE_MORE
							      : H2_PREFACE_WAITS);
		/* all of it, but the first request's fields until they are complete */
		memset(bytes, 0xff, n >= asked ? asked : n >= fields ? fields : 0);
	}
	assert_string_equal(o.authority, "edge-1");
	assert_int_equal(o.ack_at, asked);
	client_fini(&c);
	buf_fini(&settings);
}

static void
a_refusal_is_an_answer(void **state)
{
	struct buf answer;
	struct client c;

	(void)state;
	for (int settings = 0; settings < 2; settings++) {
		buf_init(&answer, BUF_UNLIMITED);
		client_init(&c);
		ask(&c, "edge-1", "x");
		if (settings == 0)
			h2_preface_settings(&answer);
		h2_preface_refuse(&answer, 1, 404, "edge-1 is not a node", settings == 1);
		assert_int_equal(nghttp2_session_mem_recv(
					 c.ng, (uint8_t *)buf_at(&answer), buf_len(&answer)),
			(ssize_t)buf_len(&answer));
		assert_int_equal(c.status, 404);
		assert_string_equal(c.grpc, "5");
		assert_string_equal(c.message, "edge-1 is not a node");
		assert_int_equal(c.goaways, 1);
		client_fini(&c);
		buf_fini(&answer);
	}
}

#define MAGIC "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SETTINGS "\0\0\0\4\0\0\0\0\0"

static enum h2_preface_state
state_of(const char *bytes, size_t n)
{
	struct h2_preface o = {0};

	return h2_preface_read(bytes, n, &o);
}
#define STATE_OF(text) state_of(text, sizeof text - 1)

static void
what_is_no_opening(void **state)
{
	(void)state;
	assert_int_equal(STATE_OF("POST / HTTP/1.1\r\n"), H2_PREFACE_NONE);
	assert_int_equal(STATE_OF("P"), H2_PREFACE_MORE);
	assert_int_equal(STATE_OF("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"), H2_PREFACE_NONE);
	assert_int_equal(STATE_OF(MAGIC), H2_PREFACE_MORE);
	assert_int_equal(STATE_OF(MAGIC SETTINGS), H2_PREFACE_WAITS);
	assert_int_equal(STATE_OF(MAGIC "\0\0\0\4\1\0\0\0\0"), H2_PREFACE_BAD); /* an ACK first */
	assert_int_equal(STATE_OF(MAGIC "\0\0\0\1\5\0\0\0\1"), H2_PREFACE_BAD); /* HEADERS first */
	assert_int_equal(STATE_OF(MAGIC "\1\0\0\4\0\0\0\0\0"), H2_PREFACE_BAD); /* 65536 bytes */
	assert_int_equal(
		STATE_OF(MAGIC SETTINGS "\0\0\0\1\4\0\0\0\2"), H2_PREFACE_BAD); /* stream 2 */
	assert_int_equal(STATE_OF(MAGIC SETTINGS "\0\0\1\1\14\0\0\0\1\7"),
		H2_PREFACE_BAD); /* padding alone */
	assert_int_equal(
		STATE_OF(MAGIC SETTINGS "\0\0\1\1\4\0\0\0\1\377"), H2_PREFACE_BAD); /* index 127 */
	assert_int_equal(
		STATE_OF(MAGIC SETTINGS "\0\0\0\11\4\0\0\0\1"), H2_PREFACE_BAD); /* CONTINUATION */
	assert_int_equal(STATE_OF(MAGIC SETTINGS "\0\0\0\1\0\0\0\0\1\0\0\0\4\0\0\0\0\0"),
		H2_PREFACE_BAD); /* between */
	/* :authority with a line end */
	assert_int_equal(STATE_OF(MAGIC SETTINGS "\0\0\5\1\4\0\0\0\1\1\3a\nb"), H2_PREFACE_BAD);
	assert_int_equal(STATE_OF(MAGIC SETTINGS "\0\0\5\1\4\0\0\0\1\1\3a.b"), H2_PREFACE_ASKED);
	/* twice */
	assert_int_equal(
		STATE_OF(MAGIC SETTINGS "\0\0\12\1\4\0\0\0\1\1\3a.b\1\3a.b"), H2_PREFACE_BAD);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_says_whom_it_asks_for),
		cmocka_unit_test(who_waits_gets_settings_and_acknowledges_them),
		cmocka_unit_test(no_byte_is_read_twice),
		cmocka_unit_test(a_refusal_is_an_answer),
		cmocka_unit_test(what_is_no_opening),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
