/*
 * Frames of a peer, fed to a session: the first byte says in which role and how the bytes are cut,
 * and whether a client's preface is put in front, and how it is written. The owner accepts, echoes
 * and resets by what comes. Whatever comes, the budget is back at its base afterwards.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "tunnel/h2/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct memory {
	struct transport wire;
	const uint8_t *data;
	size_t size, piece;
	const char *preface;
	bool full, wanted;
	char record[TLS_RECORD_BYTES];
};

struct owner {
	struct stream *st;
	bool refused; /* by us */
	bool stays; /* when the stream fades */
	unsigned faded;
};

static ssize_t
memory_read(struct transport *w, void *to, size_t size)
{
	struct memory *m = (struct memory *)w;
	size_t n = MIN(MIN(size, m->piece), m->size);

	if (*m->preface != '\0') {
		n = strlen(m->preface);
		memcpy(to, m->preface, n);
		m->preface = "";
		return (ssize_t)n;
	}
	if (n == 0)
		return -EAGAIN;
	memcpy(to, m->data, n);
	m->data += n;
	m->size -= n;
	return (ssize_t)n;
}

static ssize_t
memory_write(struct transport *w, const void *data, size_t n)
{
	(void)w;
	(void)data;
	return (ssize_t)n;
}

static void
memory_want(struct transport *w, bool writable)
{
	((struct memory *)w)->wanted = writable;
}

static void
memory_free(struct transport *w)
{
	((struct memory *)w)->wire.on = NULL;
}

/* Every other record finds no room at first. */
static ssize_t
memory_gather(struct transport *w, const void *data, size_t n)
{
	struct memory *m = (struct memory *)w;

	assert(n > 0 && n <= sizeof m->record);
	m->full = !m->full;
	if (m->full)
		return -EAGAIN;
	memcpy(m->record, data, n);
	return (ssize_t)n;
}

static int
memory_send(struct transport *w)
{
	(void)w;
	return 0;
}

static const struct transport_ops ops = {
	.read = memory_read, .write = memory_write, .want = memory_want, .free = memory_free};
static const struct transport_ops gathering = {
	.read = memory_read,
	.gather = memory_gather,
	.send = memory_send,
	.want = memory_want,
	.free = memory_free,
};

static void
let_go(struct owner *o, unsigned code)
{
	stream_close(&o->st, code);
	free(o);
}

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	(void)reason;
	if (status != 200)
		let_go(arg, STREAM_DONE);
}

static void
on_move(void *arg)
{
	struct owner *o = arg;
	const void *bytes;
	size_t n = stream_peek(o->st, &bytes), take = o->refused ? n : MIN(n, stream_room(o->st));

	if (n > 0 && *(const uint8_t *)bytes == 'x') {
		let_go(o, STREAM_BROKEN);
		return;
	}
	if (!o->refused) /* what still comes after a refusal is read, and leads nowhere */
		stream_write(o->st, bytes, take);
	stream_consume(o->st, take);
	if (stream_eof(o->st)) {
		stream_end(o->st);
		let_go(o, STREAM_DONE);
	}
}

static void
on_reset(void *arg, unsigned code)
{
	(void)code;
	let_go(arg, STREAM_DONE);
}

/* Every other owner lets go. */
static void
on_fading(void *arg)
{
	struct owner *o = arg;

	o->faded++;
	assert(o->faded == 1);
	if (!o->stays)
		let_go(o, STREAM_DONE);
}

static const struct stream_events stream_events = {on_answered, on_move, on_move, on_reset};

static unsigned
on_opened(void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	struct owner *o;

	(void)arg;
	if (request->authority[0] == 'n') {
		*reason = request->n_fields > 0 ? "named" : "";
		return 403;
	}
	o = xcalloc(1, sizeof *o);
	o->st = st;
	stream_accept(st, &stream_events, o);
	o->refused = request->authority[0] == 'r';
	stream_answer(st, o->refused ? 502 : 200, "by the fuzzer");
	stream_fade(st, false);
	return 0;
}

static void
turn(struct loop *loop, struct memory *m, bool *ended)
{
	loop_turn(loop);
	if (m->wanted && !*ended)
		m->wire.on(m->wire.arg);
}

static void
on_ended(void *arg, int rc, const char *why)
{
	assert(rc <= 0 && why[0] != '\0');
	*(bool *)arg = true;
}

static const struct session_events events = {.opened = on_opened, .ended = on_ended};

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct session_budget budget = {.limit = 1 << 20};
	struct session_limits limits = {.max_streams = 16, .ping_ms = 1000000, .dead_ms = 2000000};
	struct memory memory = {.preface = ""};
	struct session_setup setup = {
		.wire = &memory.wire, .budget = &budget, .limits = &limits, .events = &events};
	bool ended = false;
	struct session *s;
	struct loop *loop;

	if (size == 0 || size > 65536 || loop_new(&loop, NULL) < 0)
		return 0;
	setup.loop = loop;
	setup.role = data[0] & 1 ? SESSION_SERVER : SESSION_CLIENT;
	setup.squeeze = data[0] & 16;
	setup.udp = data[0] & 32;
	memory.wire.ops = data[0] & 64 ? &gathering : &ops;
	setup.arg = &ended;
	memory.piece = data[0] & 2 ? 7 : TRANSPORT_READ_BYTES;
	if ((data[0] & 5) == 5)
		memory.preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	memory.data = data + 1;
	memory.size = size - 1;
	if (session_new(&setup, &s) < 0)
		abort();
	for (int i = 0; i < 3 && setup.role == SESSION_CLIENT; i++) {
		struct owner *o = xcalloc(1, sizeof *o);

		if (session_open(s, &(struct stream_request){.authority = "a:1"}, &stream_events, o,
			    &o->st) < 0)
			abort();
		o->stays = i & 1;
		stream_on_fading(o->st, on_fading, o);
		if (stream_room(o->st) > 0) /* not before the answer, when it may be coded */
			stream_write(o->st, "hello", 5);
	}
	for (int i = 0; i < 8 && !ended; i++)
		turn(loop, &memory, &ended);
	if (data[0] & 8 && !ended)
		session_drain(s);
	for (int i = 0; i < 4 && !ended; i++)
		turn(loop, &memory, &ended);
	session_free(&s);
	assert(budget.held == 0 && budget.granted == 0);
	loop_free(&loop);
	return 0;
}
