#include "hub/kube/kube_api.h"

#include <string.h>

#include "base/core/log.h"
#include "hub/kube/kubeconfig.h"

struct kube_api {
	struct loop *loop;
	struct https *https;
	char *kubeconfig;
	struct https_peer peer;
	uint64_t read_ms;
	char problem[512];
};

int
kube_api_open(struct kube_api **out, struct loop *loop, const char *kubeconfig, struct err *err)
{
	struct kube_api *api = xcalloc(1, sizeof *api);
	int rc = kubeconfig_read(&api->peer, kubeconfig, err);

	api->loop = loop;
	api->kubeconfig = xstrdup(kubeconfig);
	api->read_ms = loop_now_ms(loop);
	if (rc == 0)
		rc = https_new(&api->https, loop, err);
	*out = api;
	if (rc < 0)
		kube_api_close(out);
	return rc;
}

void
kube_api_close(struct kube_api **out)
{
	struct kube_api *api = take_ptr(out);

	if (api == NULL)
		return;
	https_free(&api->https);
	kubeconfig_peer_fini(&api->peer);
	free(api->kubeconfig);
	free(api);
}

static void
read_again(struct kube_api *api)
{
	uint64_t now = loop_now_ms(api->loop);
	struct https_peer peer;
	struct err err = {0};

	if (now - api->read_ms < KUBE_API_FRESH_MS)
		return;
	api->read_ms = now;
	if (kubeconfig_read(&peer, api->kubeconfig, &err) < 0) {
		if (strcmp(api->problem, err.text) != 0)
			log_limited(LOG_LEVEL_WARN, 6, "kubernetes",
				"credentials cannot be read again, the last ones are used: %s",
				err.text);
		strcpy(api->problem, err.text);
		return;
	}
	api->problem[0] = '\0';
	kubeconfig_peer_fini(&api->peer);
	api->peer = peer;
}

struct https_request *
kube_api_start(struct kube_api *api, const struct https_call *call)
{
	struct https_call full = *call;

	read_again(api);
	full.peer = &api->peer;
	return https_start(api->https, &full);
}

uint64_t
kube_wait_ms(struct kube_wait *w, const struct https_answer *answer)
{
	int kind = answer == NULL || answer->status == 0 ? KUBE_WAIT_UNANSWERED
		: answer->status < 300                   ? KUBE_WAIT_BROKEN
							 : KUBE_WAIT_REFUSED;
	uint64_t most = KUBE_WAIT_MOST_MS, ms = w->first_ms != 0 ? w->first_ms : KUBE_WAIT_FIRST_MS;
	uint32_t random;

	if (kind != (int)w->last)
		w->failures = 0;
	w->last = kind;
	if (kind == KUBE_WAIT_REFUSED && w->failures >= KUBE_WAIT_REFUSALS)
		most = KUBE_WAIT_REFUSED_MS;
	ms = MIN(ms << MIN(w->failures, 9u), most);
	w->failures++;
	random_bytes(&random, sizeof random);
	ms -= ms / 2 * (random % 1024) / 1024;
	if (answer != NULL && answer->retry_after_s > 0)
		ms = MAX(ms, answer->retry_after_s * 1000ul + random % KUBE_WAIT_SPREAD_MS);
	return ms;
}

void
kube_wait_reset(struct kube_wait *w)
{
	w->failures = 0;
	w->last = KUBE_WAIT_UNANSWERED;
	w->doubt_ms = 0;
}

bool
kube_wait_doubts(struct kube_wait *w, const struct https_answer *answer, uint64_t now_ms)
{
	if (answer->status != 403 && answer->status != 404) {
		w->doubt_ms = 0;
		return false;
	}
	if (w->doubt_ms == 0)
		w->doubt_ms = now_ms;
	return now_ms - w->doubt_ms < KUBE_WAIT_DOUBT_MS;
}

const char *
kube_api_server(const struct kube_api *api)
{
	return api->peer.server;
}

const char *
kube_api_namespace(const struct kube_api *api)
{
	return api->peer.ns;
}

const char *
kube_api_problem(const struct kube_api *api)
{
	return api->problem;
}
