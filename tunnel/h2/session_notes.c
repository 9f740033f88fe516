/* Reports events to the owners of streams and of the session. */
#include "tunnel/h2/session_private.h"
#include "tunnel/h2/udp_path.h"

#include <stdio.h>
#include <string.h>

enum {
	NOTES_LEAST = 32, /* events reported in a turn */
	NOTES_LEAST_OF_ALL = 256, /* the same for all late sessions of a budget together */
	NOTES_LEAST_OF_MANY = 4, /* and still for each of them */
};

static void
session_notes_refuse(struct stream *st, unsigned status, const char *reason)
{
	stream_answer(st, status, reason);
	if (st->id == 0)
		stream_destroy(st);
}

/* 0, or the status to refuse the stream with. */
static unsigned
read_head(const struct h2_section *h, char target[STREAM_AUTHORITY_MAX + 1],
	struct stream_request *request, const char **reason)
{
	const char *protocol = head_find(h, ":protocol"), *path = head_find(h, ":path");

	request->authority = head_find(h, ":authority");
	if (strcmp(head_find(h, ":method"), "CONNECT") != 0 || request->authority == NULL) {
		*reason = "a tunnel carries CONNECT only";
		return 405;
	}
	if (protocol == NULL)
		return 0;
	*reason = "of the protocols of CONNECT only connect-udp is known here";
	if (strcmp(protocol, "connect-udp") != 0)
		return 501; /* RFC 9220 section 3 */
	*reason = "the path of a target of UDP is /.well-known/masque/udp/HOST/PORT/";
	if (path == NULL || !udp_path_parse(path, target, STREAM_AUTHORITY_MAX + 1))
		return 400;
	request->udp = true;
	request->authority = target;
	*reason = "";
	return 0;
}

/* What a session says itself is not the owner's, who may pass the fields on in another one. */
static bool
is_of_session(const char *name)
{
	return name[0] == ':' || strcmp(name, "edgeway-encoding") == 0 ||
		strcmp(name, "capsule-protocol") == 0;
}

static size_t
read_fields(const struct h2_section *h, struct stream_field to[STREAM_FIELDS_MAX])
{
	struct h2_field f;
	size_t at = 0, n = 0;

	while (n < STREAM_FIELDS_MAX && h2_section_next(h, &at, &f))
		if (!is_of_session(f.name.at))
			to[n++] = (struct stream_field){f.name.at, f.value.at};
	return n;
}

static void
tell_opened(struct session *s, struct stream *st)
{
	struct h2_section *h = take_ptr(&st->head);
	struct stream_field fields[STREAM_FIELDS_MAX];
	struct stream_request request = {.fields = fields, .n_fields = read_fields(h, fields)};
	char target[STREAM_AUTHORITY_MAX + 1];
	const char *reason = "";
	unsigned status = read_head(h, target, &request, &reason);

	st->udp = request.udp;
	st->offered = s->squeeze && !st->udp && head_squeezes(h);
	if (status == 0)
		st->target = xstrdup(request.authority);
	if (s->state >= SESSION_DRAINING || (!s->within && stream_exceeds(st))) {
		stream_close(&st, STREAM_REFUSED);
	} else if (status != 0 ||
		(status = s->events->opened(s->arg, st, &request, &reason)) != 0) {
		session_notes_refuse(st, status, reason);
	}
	head_free(&h);
}

static void
tell_answered(struct stream *st)
{
	struct h2_section *h = take_ptr(&st->head);
	const char *reason = head_find(h, "edgeway-reason");
	char line[STREAM_REASON_MAX + 1];

	snprintf(line, sizeof line, "%s", reason != NULL ? reason : "");
	if (st->events->answered != NULL)
		st->events->answered(st->arg, head_status(h), line);
	head_free(&h);
}

static void
session_notes_tell(struct session *s, struct stream *st, unsigned note)
{
	const struct stream_events *events = st->events;

	if (note == NOTE_OPENED)
		tell_opened(s, st);
	else if (events == NULL)
		return;
	else if (note == NOTE_ANSWERED)
		tell_answered(st);
	else if (note == NOTE_READABLE && events->readable != NULL)
		events->readable(st->arg);
	else if (note == NOTE_WRITABLE && events->writable != NULL)
		events->writable(st->arg);
	else if (note == NOTE_RESET)
		events->reset(st->arg, st->code);
	else if (note == NOTE_FADING && st->on_fading != NULL)
		st->on_fading(st->fading_arg);
}

/* Some events are reported however short the turn is: sessions that are late together would
 * otherwise spend their turns on everything else. */
static unsigned
notes_least(const struct session *s)
{
	return MIN((unsigned)NOTES_LEAST,
		MAX((unsigned)NOTES_LEAST_OF_MANY, NOTES_LEAST_OF_ALL / MAX(s->budget->late, 1u)));
}

/* Any callback may free the stream, or others. */
void
session_tell(struct session *s, bool all)
{
	unsigned least = notes_least(s), told = 0;
	bool was_behind = s->behind;
	struct stream *st;

	s->behind = false;
	while (!s->freed && (st = TAILQ_FIRST(&s->noted)) != NULL) {
		unsigned note = st->notes & -st->notes;

		st->notes &= ~note;
		if (st->notes == 0)
			TAILQ_REMOVE(&s->noted, st, noted);
		session_notes_tell(s, st, note);
		if (++told >= least && !all && !s->freed && session_turn_is_over(s)) {
			s->behind = !TAILQ_EMPTY(&s->noted);
			break;
		}
	}
	if (!s->freed && was_behind && !s->behind)
		s->heard_ms = loop_now_ms(s->loop); /* nothing was read meanwhile */
	if (!s->freed && s->asked) {
		s->asked = false;
		if (s->events->asked != NULL)
			s->events->asked(s->arg);
	}
	if (!s->freed && s->silent != s->silent_told) {
		s->silent_told = s->silent;
		if (s->events->silent != NULL)
			s->events->silent(s->arg, s->silent);
	}
	if (!s->freed && s->peer_drains) {
		s->peer_drains = false;
		if (s->events->draining != NULL)
			s->events->draining(s->arg);
	}
}
