/*
 * State shared by the files of the reflector: reflector.c sends the requests and handles the result
 * of a response, reflector_take.c turns the bodies of responses into changes of the cluster.
 */
#ifndef EDGEWAY_HUB_KUBE_REFLECTOR_PRIVATE_H
#define EDGEWAY_HUB_KUBE_REFLECTOR_PRIVATE_H

#include "base/core/log.h"
#include "hub/kube/json_stream.h"
#include "hub/kube/reflector.h"

enum {
	VERSION_MAX = 63,
	CONTINUE_MAX = 4096,
	BRIEF_MS = 1000, /* a watch that ends sooner does not count as a good one */
	TOO_LARGE_MS = 30000,
	ERRORS_MOST = 3, /* ERROR events in a row, then the list is read again */
};

enum step { STEP_LIST, STEP_WATCH, STEP_PROBE };

struct reflector {
	struct reflector_config config;
	enum step step;
	struct https_request *request; /* NULL: the timer runs */
	struct timer *timer;
	struct json_stream split; /* of the current request */
	uint64_t began_ms; /* when the request began */
	char version[VERSION_MAX + 1]; /* the watch starts from it */
	bool listed, absent, refused, open;
	bool spoke; /* this watch has sent something */
	struct kube_wait wait;
	unsigned version_at; /* of config.versions */
	unsigned error_events;
	/* Of the current list. */
	char list_version[VERSION_MAX + 1]; /* of its first page, "": the list has not begun */
	char *next; /* continue, "": first page */
	uint64_t mark, list_began_ms;
	bool at_once; /* without pages, because they expired before */
	bool unknown; /* it held objects that were not understood: nothing is removed */
	struct reflector_stats stats;
	struct err wrong; /* the error that on_value found */
	char problem[512];
};

/* Logs the problem if it is a new one. */
void reflector_trouble(struct reflector *r, enum log_level level, const char *fmt, ...)
	printf_like(3, 4);
/* No problem: the next back-off is short again. */
void reflector_well(struct reflector *r);

/* Handles an element of a list, or an event (json_stream_fn). -ESTALE: the watch history has
 * expired; -EAGAIN: the server has a problem; -EBADMSG, -EMSGSIZE: an event that cannot be used.
 * r->wrong has the error. */
int reflector_take(void *arg, const char *text, size_t len);
/* Reads the metadata of a complete list: its version, and the continue token ("": no more pages;
 * the caller frees it). */
int reflector_take_rest(struct reflector *r, char version[VERSION_MAX + 1], char **next);

#endif
