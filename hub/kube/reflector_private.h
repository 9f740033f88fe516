/*
 * Between the files of the reflector: reflector.c is the spine (what is asked, and what comes of an
 * answer), reflector_take.c turns the bodies of answers into changes of the cluster.
 */
#ifndef EDGEWAY_HUB_KUBE_REFLECTOR_PRIVATE_H
#define EDGEWAY_HUB_KUBE_REFLECTOR_PRIVATE_H

#include "base/core/log.h"
#include "hub/kube/json_stream.h"
#include "hub/kube/reflector.h"

enum {
	VERSION_MAX = 63,
	CONTINUE_MAX = 4096,
	BRIEF_MS = 1000, /* a watch that ends sooner is no good one */
	TOO_LARGE_MS = 30000,
	ERRORS_MOST = 3, /* ERROR events in a row, then the list is read again */
};

enum step { STEP_LIST, STEP_WATCH, STEP_PROBE };

struct reflector {
	struct reflector_config config;
	enum step step;
	struct https_request *request; /* NULL: the timer runs */
	struct timer *timer;
	struct json_stream split; /* of the request under way */
	uint64_t began_ms; /* the request */
	char version[VERSION_MAX + 1]; /* watched from */
	bool listed, absent, refused, open;
	bool spoke; /* this watch has said something */
	struct kube_wait wait;
	unsigned version_at; /* of config.versions */
	unsigned error_events;
	/* Of the list under way. */
	char list_version[VERSION_MAX + 1]; /* of its first page, "": it has not begun */
	char *next; /* continue, "": first page */
	uint64_t mark, list_began_ms;
	bool at_once; /* not in pages: they have expired before */
	bool unknown; /* it held what was not understood: nothing is removed */
	struct reflector_stats stats;
	struct err wrong; /* what on_value found */
	char problem[512];
};

/* Logs when it is another problem than before. */
void reflector_trouble(struct reflector *r, enum log_level level, const char *fmt, ...)
	printf_like(3, 4);
/* All is well: what waits next waits shortly. */
void reflector_well(struct reflector *r);

/* An element of a list, or an event (json_stream_fn). -ESTALE: the history is over; -EAGAIN: the
 * server has a trouble;
 * -EBADMSG, -EMSGSIZE: an event that cannot be taken. r->wrong says what. */
int reflector_take(void *arg, const char *text, size_t len);
/* metadata of a list that has ended: its version, and where it goes on ("" : nowhere; the
 * caller's). */
int reflector_take_rest(struct reflector *r, char version[VERSION_MAX + 1], char **next);

#endif
