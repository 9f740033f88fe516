#include "tunnel/h2/session_private.h"
#include "tunnel/h2/udp_path.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { FIELD_MAX = 1024 };

void
head_free(struct head **head)
{
	struct head *h = take_ptr(head);

	if (h == NULL)
		return;
	free(h->authority);
	free(h->reason);
	free(h->path);
	for (size_t i = 0; i < h->n; i++) {
		free(h->names[i]);
		free(h->values[i]);
	}
	free(h);
}

struct stream *
stream_create(struct session *s)
{
	struct stream *st = xcalloc(1, sizeof *st);

	frame_budget_stream(&s->frames);
	st->session = s;
	st->window = STREAM_WINDOW_BASE;
	st->mark_ms = st->since_ms = loop_now_ms(s->loop);
	st->in.spare = st->out.spare = &s->budget->spare;
	TAILQ_INSERT_TAIL(&s->streams, st, link);
	s->stats.streams++;
	return st;
}

size_t
budget_used(const struct session_budget *b)
{
	return b->held + b->granted + b->queued;
}

void
stream_unbudget(struct stream *st)
{
	struct session_budget *b = st->session->budget;

	st->in.spare = st->out.spare =
		NULL; /* the budget may be freed before the stream's owner releases the stream */
	coding_unbudget(st);
	b->held -= st->in.len;
	b->granted -= st->window - STREAM_WINDOW_BASE;
	b->queued -= st->out.len;
}

/* The session releases the stream; its owner may still hold it. */
static void
session_stream_detach(struct stream *st)
{
	struct session *s = st->session;

	stream_unbudget(st);
	frames_forget(st);
	s->stats.streams--;
	TAILQ_REMOVE(&s->streams, st, link);
	if (st->notes != 0)
		TAILQ_REMOVE(&s->noted, st, noted);
	st->notes = 0;
	if (s->state >= SESSION_DRAINING)
		session_kick(s);
	st->session = NULL;
}

void
stream_destroy(struct stream *st)
{
	if (st->session != NULL)
		session_stream_detach(st);
	head_free(&st->head);
	free(st->target);
	chain_fini(&st->in); /* nghttp2 has kept the peer within the window */
	chain_fini(&st->out);
	coding_free(st);
	free(st);
}

void
stream_note(struct stream *st, enum note note)
{
	struct session *s = st->session;

	if (st->notes == 0)
		TAILQ_INSERT_TAIL(&s->noted, st, noted);
	st->notes |= note;
	if (s->busy == 0)
		session_kick(s);
}

static nghttp2_nv
session_stream_pair(const char *name, const char *value)
{
	return (nghttp2_nv){
		.name = (uint8_t *)(uintptr_t)name,
		.value = (uint8_t *)(uintptr_t)value,
		.namelen = strlen(name),
		.valuelen = strlen(value),
	};
}

static bool
session_stream_printable(const char *text, size_t most)
{
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return n <= most;
}

static bool
good_request(const struct stream_request *r)
{
	if (r->n_fields > STREAM_FIELDS_MAX || r->authority[0] == '\0' ||
		strchr(r->authority, ' ') != NULL ||
		!session_stream_printable(r->authority, STREAM_AUTHORITY_MAX))
		return false;
	for (size_t i = 0; i < r->n_fields; i++) {
		const struct stream_field *f = &r->fields[i];

		if (!nghttp2_check_header_name((const uint8_t *)f->name, strlen(f->name)) ||
			f->name[0] == ':' || !session_stream_printable(f->value, FIELD_MAX))
			return false;
	}
	return true;
}

enum { PSEUDO_MAX = 5 };

/* The pseudo-header fields that name the target; `path`: as sent, for a datagram stream. Returns
 * how many. */
static size_t
put_pseudo(const struct stream_request *r, const char *path, nghttp2_nv nv[PSEUDO_MAX + 1])
{
	size_t n = 0;

	nv[n++] = session_stream_pair(":method", "CONNECT");
	nv[n++] = session_stream_pair(":authority", r->authority);
	if (!r->udp)
		return n;
	nv[n++] = session_stream_pair(":protocol", "connect-udp");
	nv[n++] = session_stream_pair(":scheme", "https");
	nv[n++] = session_stream_pair(":path", path);
	nv[n++] = session_stream_pair("capsule-protocol", "?1");
	return n;
}

/* Whether the stream may be opened at all, and now. */
static int
check_open(const struct session *s, const struct stream_request *r, char path[UDP_PATH_MAX])
{
	size_t most;

	if (s->server || !good_request(r) ||
		(r->udp && !udp_path_build(r->authority, path, UDP_PATH_MAX)))
		return -EINVAL;
	if (s->state > SESSION_OPEN)
		return -ESHUTDOWN;
	most = nghttp2_session_get_remote_settings(s->ng, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
	if (s->stats.streams >= MIN(most, s->limits.max_streams))
		return -EAGAIN;
	if (r->udp && s->state == SESSION_HANDSHAKE)
		return -EINPROGRESS;
	if (r->udp &&
		nghttp2_session_get_remote_settings(
			s->ng, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) != 1)
		return -EPROTONOSUPPORT;
	return 0;
}

int
session_open(struct session *s, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out)
{
	nghttp2_nv nv[PSEUDO_MAX + 2 + STREAM_FIELDS_MAX];
	nghttp2_data_provider data = {.read_callback = frames_source};
	char path[UDP_PATH_MAX];
	struct stream *st;
	int rc = check_open(s, request, path);
	size_t n;

	if (rc < 0)
		return rc;
	st = stream_create(s);
	st->head = xcalloc(1, sizeof *st->head);
	st->events = events;
	st->arg = arg;
	data.source.ptr = st;
	n = put_pseudo(request, path, nv);
	for (size_t i = 0; i < request->n_fields; i++)
		nv[n++] = session_stream_pair(request->fields[i].name, request->fields[i].value);
	st->udp = request->udp;
	st->offered = s->squeeze && !st->udp;
	if (st->offered)
		nv[n++] = session_stream_pair("edgeway-encoding", "deflate");
	st->id = nghttp2_submit_request(s->ng, NULL, nv, n, &data, st);
	if (st->id < 0) { /* 2^30 streams were opened */
		stream_destroy(st);
		return -ESHUTDOWN;
	}
	st->target = xstrdup(request->authority);
	s->stats.opened++;
	session_asked(s);
	session_kick(s);
	*out = st;
	return 0;
}

void
stream_accept(struct stream *st, const struct stream_events *events, void *arg)
{
	assert(st->session->server && st->events == NULL);
	st->events = events;
	st->arg = arg;
	st->session->stats.accepted++;
	if (st->in.len > 0 || st->far_ended)
		stream_note(st, NOTE_READABLE);
}

void
stream_use(struct stream *st, const struct stream_events *events, void *arg)
{
	st->events = events;
	st->arg = arg;
}

/* Makes one printable line of any text. */
static void
clean_reason(char to[STREAM_REASON_MAX + 1], const char *reason)
{
	snprintf(to, STREAM_REASON_MAX + 1, "%s", reason);
	for (char *p = to; *p != '\0'; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
}

static bool
memory_is_easy(const struct session_budget *b)
{
	return budget_used(b) < b->limit / 2;
}

void
stream_answer(struct stream *st, unsigned status, const char *reason)
{
	nghttp2_data_provider data = {.source.ptr = st, .read_callback = frames_source};
	char digits[4], line[STREAM_REASON_MAX + 1];
	nghttp2_nv nv[4];
	size_t n = 0;

	assert(!st->answered && status >= 200 && status <= 599);
	st->answered = true;
	st->refused = status != 200;
	if (st->id == 0 || st->session == NULL)
		return;
	snprintf(digits, sizeof digits, "%u", status);
	clean_reason(line, reason);
	nv[n++] = session_stream_pair(":status", digits);
	if (line[0] != '\0')
		nv[n++] = session_stream_pair("edgeway-reason", line);
	if (st->udp && !st->refused)
		nv[n++] = session_stream_pair("capsule-protocol", "?1");
	if (st->offered && !st->refused && memory_is_easy(st->session->budget)) {
		nv[n++] = session_stream_pair("edgeway-encoding", "deflate");
		coding_start(st);
	}
	if (st->refused) {
		st->ended = true;
		st->session->stats.refused++;
	}
	nghttp2_submit_response(st->session->ng, st->id, nv, n, st->refused ? NULL : &data);
	session_kick(st->session);
}

static bool
session_stream_writable(const struct stream *st)
{
	return st->session != NULL && st->id != 0 && !st->ended;
}

size_t
stream_room(struct stream *st)
{
	size_t room, most = STREAM_OUT_BYTES, len = st->out.len;

	if (!session_stream_writable(st))
		return 0;
	if (st->offered && !st->answered) { /* the answer tells whether to compress */
		st->wants_room = true;
		return 0;
	}
	if (budget_used(st->session->budget) > st->session->budget->limit)
		most = STREAM_OUT_SHORT;
	room = most > len ? most - len : 0;
	if (room == 0 && !st->wants_room) {
		st->wants_room = true;
		st->session->stats.stalls++;
	}
	return room;
}

size_t
stream_queued(const struct stream *st)
{
	return st->out.len;
}

static void
session_stream_resume(struct stream *st)
{
	if (st->deferred) {
		st->deferred = false;
		nghttp2_session_resume_data(st->session->ng, st->id);
	}
	session_kick(st->session);
}

void
stream_write(struct stream *st, const void *data, size_t n)
{
	if (!session_stream_writable(st) || n == 0)
		return;
	assert(!st->offered || st->answered);
	assert(n <= STREAM_OUT_BYTES - st->out.len); /* no more than stream_room */
	if (st->coding != NULL) {
		coding_write(st, data, n);
	} else {
		chain_add(&st->out, data, n);
		st->session->budget->queued += n;
	}
	session_stream_resume(st);
}

int
stream_reserve(struct stream *st, size_t most, struct iovec *v)
{
	size_t room = MIN(stream_room(st), most);

	if (room == 0)
		return 0;
	return st->coding != NULL ? coding_reserve(st, room, v) : chain_reserve(&st->out, room, v);
}

void
stream_commit(struct stream *st, size_t n)
{
	if (st->coding != NULL) {
		coding_commit(st, n);
	} else {
		chain_commit(&st->out, n);
		st->session->budget->queued += n;
	}
	if (n > 0)
		session_stream_resume(st);
}

void
stream_end(struct stream *st)
{
	if (!session_stream_writable(st))
		return;
	st->ended = true;
	session_stream_resume(st);
}

size_t
stream_peek(struct stream *st, const void **data)
{
	if (st->coding != NULL)
		return coding_peek(st, data);
	return chain_peek(&st->in, data);
}

int
stream_peek_all(struct stream *st, struct iovec *v)
{
	const void *data;

	if (st->coding == NULL)
		return chain_peek_all(&st->in, v);
	v->iov_len = coding_peek(st, &data);
	v->iov_base = (void *)(uintptr_t)data;
	return v->iov_len > 0;
}

bool
stream_eof(const struct stream *st)
{
	return st->far_ended && st->in.len == 0 && (st->coding == NULL || coding_empty(st));
}

bool
stream_spoilt(const struct stream *st)
{
	return st->session == NULL && st->coding != NULL && coding_bad(st);
}

bool
stream_far_ended(const struct stream *st)
{
	return st->far_ended;
}

void
stream_consume(struct stream *st, size_t n)
{
	if (st->coding != NULL)
		coding_consume(st, n);
	else
		stream_took(st, n);
}

void
stream_fade(struct stream *st, bool doubted)
{
	if (st->session == NULL || st->id == 0 || !st->session->server ||
		(st->fading && (st->doubted || !doubted)))
		return;
	st->fading = true;
	st->doubted = doubted;
	nghttp2_submit_extension(st->session->ng, SESSION_FADING,
		doubted ? SESSION_FADING_DOUBTED : NGHTTP2_FLAG_NONE, st->id, NULL);
	session_kick(st->session);
}

bool
stream_is_doubted(const struct stream *st)
{
	return st->doubted;
}

void
stream_on_fading(struct stream *st, loop_fn *fn, void *arg)
{
	st->on_fading = fn;
	st->fading_arg = arg;
	if (st->fading && fn != NULL && st->session != NULL)
		stream_note(st, NOTE_FADING);
}

void
stream_close(struct stream **stream, unsigned code)
{
	struct stream *st = take_ptr(stream);

	if (st == NULL)
		return;
	st->events = NULL;
	if (st->session == NULL || st->id == 0) {
		stream_destroy(st);
		return;
	}
	if (st->refused || (code == STREAM_DONE && st->ended && st->far_ended))
		return; /* on_stream_close frees it, once the queued output has gone out */
	if (code == STREAM_DONE)
		code = STREAM_CANCELLED;
	st->session->stats.resets_sent++;
	nghttp2_submit_rst_stream(st->session->ng, NGHTTP2_FLAG_NONE, st->id, code);
	session_kick(st->session);
}
