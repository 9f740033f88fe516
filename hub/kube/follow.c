#include "hub/kube/follow.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "hub/kube/json_stream.h"

struct follow {
	struct follow_config config;
	struct https_request *request;
	struct timer *timer; /* until the next list or watch */
	struct timer *tell; /* calls `told`, which may start other requests */
	struct json_stream split;
	bool watching;
	struct kube_wait wait;
	unsigned round;
	char version[FOLLOW_VERSION_MAX + 1]; /* the next watch starts from it */
	char problem[400];
};

static void follow_begin(void *arg);

/* --- errors --------------------------------------------------------------------------------- */

void
follow_describe(
	const struct https_answer *a, const char *what, const char *rights, char *to, size_t size)
{
	if (a->status == 403)
		snprintf(to, size, "forbidden: give the hub's Role %s", rights);
	else if (a->status == 404)
		snprintf(to, size,
			"the API server has no place for %s (404): is there the namespace?", what);
	else if (a->status != 0)
		snprintf(
			to, size, "the API server answers %d to a request for %s", a->status, what);
	else
		snprintf(to, size, "the API server does not answer: %.200s", a->text);
}

static void
follow_trouble(struct follow *f, const struct https_answer *a)
{
	char text[sizeof f->problem];

	follow_describe(a, f->config.what, f->config.rights, text, sizeof text);
	if (strcmp(text, f->problem) == 0)
		return;
	memcpy(f->problem, text, sizeof text);
	log_limited(LOG_LEVEL_WARN, 20, "kubernetes", "%s", text);
}

static void
follow_well(struct follow *f)
{
	kube_wait_reset(&f->wait);
	if (f->problem[0] != '\0')
		log_limited(LOG_LEVEL_INFO, 20, "kubernetes", "all is well again with %s",
			f->config.what);
	f->problem[0] = '\0';
}

static void
on_tell(void *arg)
{
	struct follow *f = arg;

	f->config.told(f->config.arg);
}

/* --- responses ------------------------------------------------------------------------------ */

bool
follow_version(char to[FOLLOW_VERSION_MAX + 1], const struct tree_node *object)
{
	const char *text = tree_text(tree_path(object, "metadata.resourceVersion"), "");
	size_t len = strlen(text);

	if (len == 0 || len > FOLLOW_VERSION_MAX || strspn(text, "0123456789") != len)
		return false;
	memcpy(to, text, len + 1);
	return true;
}

static int
on_listed(void *arg, const char *text, size_t len)
{
	struct follow *f = arg;
	struct tree *tree = NULL;

	if (text == NULL || tree_parse(&tree, f->config.what, text, len, NULL) < 0)
		return -EBADMSG;
	if (tree_count(tree) == 1)
		f->config.object(f->config.arg, tree_document(tree, 0), false);
	tree_free(&tree);
	return 0;
}

/* -ESTALE: a new list is needed. */
static int
on_event(void *arg, const char *text, size_t len)
{
	struct follow *f = arg;
	const struct tree_node *event, *object;
	struct tree *tree = NULL;
	const char *type;
	int rc = 0;

	if (text == NULL || tree_parse(&tree, f->config.what, text, len, NULL) < 0)
		return -ESTALE;
	event = tree_count(tree) == 1 ? tree_document(tree, 0) : NULL;
	object = tree_get(event, "object");
	type = tree_text(tree_get(event, "type"), "");
	if (strcmp(type, "ERROR") == 0 || !follow_version(f->version, object))
		rc = -ESTALE;
	else if (strcmp(type, "BOOKMARK") != 0)
		f->config.object(f->config.arg, object, strcmp(type, "DELETED") == 0);
	if (rc == 0) {
		follow_well(f);
		timer_start(f->tell, 0, 0);
	}
	tree_free(&tree);
	return rc;
}

static int
on_data(void *arg, const char *data, size_t len)
{
	struct follow *f = arg;

	return json_stream_feed(&f->split, data, len);
}

static bool
finish_list(struct follow *f)
{
	struct tree *tree = NULL;
	const char *rest;
	size_t len;
	bool ok;

	if (!json_stream_whole(&f->split))
		return false;
	rest = json_stream_rest(&f->split, &len);
	if (tree_parse(&tree, f->config.what, rest, len, NULL) < 0)
		return false;
	ok = tree_count(tree) == 1 && follow_version(f->version, tree_document(tree, 0));
	tree_free(&tree);
	return ok;
}

static void
on_done(void *arg, const struct https_answer *a)
{
	struct follow *f = arg;
	bool watched = f->watching;

	f->request = NULL;
	timer_start(f->tell, 0, 0);
	if (watched && a->status == 200 && a->whole) {
		/* The watch has ended; the next one continues from its last version. */
		timer_start(f->timer, kube_wait_ms(&f->wait, NULL), 0);
		return;
	}
	f->watching = false;
	if (!watched && a->status == 200 && a->whole && finish_list(f)) {
		follow_well(f);
		f->watching = true;
		f->config.listed(f->config.arg);
		follow_begin(f);
		return;
	}
	if (!(f->version[0] != '\0' &&
		    kube_wait_doubts(&f->wait, a, loop_now_ms(f->config.loop))) &&
		(!watched || a->status != 200))
		follow_trouble(f, a);
	timer_start(f->timer, kube_wait_ms(&f->wait, a), 0);
}

static void
follow_begin(void *arg)
{
	struct follow *f = arg;
	auto_free char *path = NULL;
	struct https_call call = {
		.silence_ms = f->watching ? FOLLOW_SILENCE_MS : FOLLOW_ANSWER_MS,
		.data = on_data,
		.done = on_done,
		.arg = f,
	};

	f->round += !f->watching;
	json_stream_fini(&f->split);
	json_stream_init(&f->split, f->watching ? JSON_STREAM_STREAM : JSON_STREAM_LIST,
		f->watching ? on_event : on_listed, f);
	if (f->watching)
		path = xasprintf("%s&watch=true&allowWatchBookmarks=true&resourceVersion=%s&"
				 "timeoutSeconds=%d",
			f->config.path, f->version, FOLLOW_WATCH_S);
	call.path = f->watching ? path : f->config.path;
	f->request = kube_api_start(f->config.api, &call);
}

void
follow_anew(struct follow *f)
{
	https_stop(&f->request);
	f->watching = false;
	timer_start(f->timer, 1, 0);
}

unsigned
follow_round(const struct follow *f)
{
	return f->round;
}

/* --- start and stop ------------------------------------------------------------------------- */

struct follow *
follow_start(const struct follow_config *config)
{
	struct follow *f = xcalloc(1, sizeof *f);

	f->config = *config;
	json_stream_init(&f->split, JSON_STREAM_LIST, on_listed, f);
	f->timer = timer_new(config->loop, follow_begin, f);
	f->tell = timer_new(config->loop, on_tell, f);
	timer_start(f->timer, 0, 0);
	return f;
}

void
follow_stop(struct follow **out)
{
	struct follow *f = take_ptr(out);

	if (f == NULL)
		return;
	https_stop(&f->request);
	timer_free(&f->timer);
	timer_free(&f->tell);
	json_stream_fini(&f->split);
	free(f);
}

const char *
follow_problem(const struct follow *f)
{
	return f->problem;
}
