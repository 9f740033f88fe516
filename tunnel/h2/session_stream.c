#include "tunnel/h2/session_private.h"
#include "tunnel/h2/udp_path.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/os/cgroup.h"

enum {
	FIELD_MAX = 1024,
	MEMORY_PART = 16, /* of the memory, is for windows */
	SHARE_PART = 8, /* of a limit: who holds less is not refused */
	/* limits: windows beyond the base, of which the budgets of one `shares` have their limits,
	 * are less; from here on it is base windows that fill up */
	OVERFLOW_TIMES = 2,
};

void
head_free(struct h2_section **head)
{
	struct h2_section *h = take_ptr(head);

	if (h == NULL)
		return;
	buf_fini(&h->text);
	free(h);
}

const char *
head_find(const struct h2_section *head, const char *name)
{
	struct h2_field f;
	size_t at = 0;

	while (h2_section_next(head, &at, &f))
		if (strcmp(f.name.at, name) == 0)
			return f.value.at;
	return NULL;
}

const char *
stream_field_of(const struct stream_request *request, const char *name)
{
	for (size_t i = 0; i < request->n_fields; i++)
		if (strcmp(request->fields[i].name, name) == 0)
			return request->fields[i].value;
	return "";
}

unsigned
head_status(const struct h2_section *head)
{
	return (unsigned)strtoul(head_find(head, ":status"), NULL, 10);
}

bool
head_squeezes(const struct h2_section *head)
{
	const char *coding = head_find(head, "edgeway-encoding");

	return coding != NULL && strcmp(coding, "deflate") == 0;
}

struct stream *
stream_create(struct session *s)
{
	struct stream *st = xcalloc(1, sizeof *st);

	st->session = s;
	st->slot = s->slot;
	st->window = STREAM_WINDOW_BASE;
	st->mark_ms = st->since_ms = loop_now_ms(s->loop);
	st->in.spare = st->out.spare = &s->budget->spare;
	TAILQ_INSERT_TAIL(&s->streams, st, link);
	s->stats.streams++;
	session_look_sooner(s);
	return st;
}

size_t
session_budget_limit(size_t least, size_t most)
{
	return (size_t)MIN(
		MAX(cgroup_memory_share() / MEMORY_PART, (uint64_t)least), (uint64_t)most);
}

size_t
budget_used(const struct session_budget *b)
{
	return b->held + b->granted + b->queued;
}

void
stream_keeps(struct stream *st, size_t *where, size_t n)
{
	struct fair_share *shares = st->session->budget->shares;

	*where += n;
	if (shares != NULL)
		fair_share_charge(shares, st->slot, n);
}

void
stream_gives(struct stream *st, size_t *where, size_t n)
{
	struct fair_share *shares = st->session->budget->shares;

	*where -= n;
	if (shares != NULL)
		fair_share_give(shares, st->slot, n);
}

void
stream_charge(struct stream *st, uint16_t slot)
{
	struct fair_share *shares = st->session->budget->shares;
	const size_t n = st->in.len + st->out.len;

	if (shares != NULL) {
		fair_share_give(shares, st->slot, n);
		fair_share_charge(shares, slot, n);
	}
	st->slot = slot;
}

static bool
stream_is_over(const struct stream *st, unsigned times)
{
	const struct fair_share *shares = st->session->budget->shares;
	const uint64_t limit = fair_share_limit(shares);

	return fair_share_used(shares) > times * limit &&
		fair_share_held(shares, st->slot) > limit / SHARE_PART;
}

/* Streams that were opened while there was memory may hold more than all of it. */
bool
stream_exceeds(const struct stream *st)
{
	const struct session_budget *b = st->session->budget;

	return b->shares != NULL ? stream_is_over(st, 1) : b->held + b->queued > b->limit;
}

/* Whose a stream without an owner is, may not be known yet. */
bool
stream_overflows(const struct stream *st)
{
	return st->session->budget->shares != NULL && st->events != NULL &&
		stream_is_over(st, OVERFLOW_TIMES);
}

void
stream_unbudget(struct stream *st)
{
	struct session_budget *b = st->session->budget;

	st->in.spare = st->out.spare =
		NULL; /* the budget may be freed before the stream's owner releases the stream */
	coding_unbudget(st);
	stream_gives(st, &b->held, st->in.len);
	b->granted -= st->window - STREAM_WINDOW_BASE;
	stream_gives(st, &b->queued, st->out.len);
}

/* The session releases the stream; its owner may still hold it. */
static void
session_stream_detach(struct stream *st)
{
	struct session *s = st->session;

	stream_unbudget(st);
	frames_forget(st);
	s->stats.streams--;
	s->leaving -= st->given_up;
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
	chain_fini(&st->in); /* the codec has kept the peer within the window */
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

		if (!http1_valid_token((struct http1_str){f->name, strlen(f->name)}) ||
			!session_stream_printable(f->value, FIELD_MAX))
			return false;
	}
	return true;
}

/* The pseudo-header fields that name the target; `path`: as sent, for a datagram stream. */
static void
put_pseudo(struct h2_fields *to, const struct stream_request *r, const char *path)
{
	to->n = 0;
	h2_fields_add(to, ":method", "CONNECT");
	h2_fields_add(to, ":authority", r->authority);
	if (!r->udp)
		return;
	h2_fields_add(to, ":protocol", "connect-udp");
	h2_fields_add(to, ":scheme", "https");
	h2_fields_add(to, ":path", path);
	h2_fields_add(to, "capsule-protocol", "?1");
}

/* Another session is needed: the owner hears of it as if the server had asked for it, and the
 * server, which may be the one that dials, as well. */
static int
session_use_up(struct session *s)
{
	session_send_away(s);
	s->peer_drains = true;
	return -ESHUTDOWN;
}

/* Whether the stream may be opened at all, and now. */
static int
check_open(struct session *s, const struct stream_request *r, char path[UDP_PATH_MAX])
{
	uint32_t most;

	if (s->server || !good_request(r) ||
		(r->udp && !udp_path_build(r->authority, path, UDP_PATH_MAX)))
		return -EINVAL;
	if (s->state > SESSION_OPEN)
		return -ESHUTDOWN;
	if (h2_is_used_up(s->h2))
		return session_use_up(s);
	most = h2_streams_max(s->h2);
	if (s->stats.streams >= most)
		return most > 0 ? -EAGAIN : -ESHUTDOWN;
	if (s->leaving >= SESSION_QUEUE)
		return -EAGAIN;
	if (!r->udp || s->within)
		return 0;
	if (s->state == SESSION_HANDSHAKE)
		return -EINPROGRESS;
	return h2_takes_protocols(s->h2) ? 0 : -EPROTONOSUPPORT;
}

int
session_open(struct session *s, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out)
{
	char path[UDP_PATH_MAX];
	struct h2_fields f;
	struct stream *st;
	int rc = check_open(s, request, path);

	if (rc < 0)
		return rc;
	st = stream_create(s);
	st->events = events;
	st->arg = arg;
	put_pseudo(&f, request, path);
	for (size_t i = 0; i < request->n_fields; i++)
		h2_fields_add(&f, request->fields[i].name, request->fields[i].value);
	st->udp = request->udp;
	st->offered = s->squeeze && !st->udp;
	if (st->offered)
		h2_fields_add(&f, "edgeway-encoding", "deflate");
	st->id = h2_request(s->h2, &f, false, st);
	if (st->id < 0) {
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
	char digits[4], line[STREAM_REASON_MAX + 1];
	struct h2_fields f;

	assert(!st->answered && status >= 200 && status <= 599);
	st->answered = true;
	st->refused = status != 200;
	if (st->id == 0 || st->session == NULL)
		return;
	snprintf(digits, sizeof digits, "%u", status);
	clean_reason(line, reason);
	f.n = 0;
	h2_fields_add(&f, ":status", digits);
	if (line[0] != '\0')
		h2_fields_add(&f, "edgeway-reason", line);
	if (st->udp && !st->refused)
		h2_fields_add(&f, "capsule-protocol", "?1");
	if (st->offered && !st->refused && memory_is_easy(st->session->budget)) {
		h2_fields_add(&f, "edgeway-encoding", "deflate");
		coding_start(st);
	}
	if (st->refused) {
		st->ended = true;
		st->session->stats.refused++;
	}
	h2_respond(st->session->h2, st->id, &f, st->refused);
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
		h2_resume(st->session->h2, st->id);
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
		stream_keeps(st, &st->session->budget->queued, n);
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
		stream_keeps(st, &st->session->budget->queued, n);
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
	h2_send_extension(st->session->h2, st->id, doubted ? SESSION_FADING_DOUBTED : 0);
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
stream_give_up(struct stream *st, unsigned code)
{
	if (st->given_up)
		return;
	st->session->stats.resets_sent++;
	st->session->leaving++;
	st->given_up = true;
	h2_reset(st->session->h2, st->id, code);
	session_kick(st->session);
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
		return; /* on_closed frees it, once the queued output has gone out */
	if (code == STREAM_DONE || (code == STREAM_LOST && !st->session->within))
		code = STREAM_CANCELLED;
	stream_give_up(st, code);
}
