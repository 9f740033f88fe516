/* What the agent reads in the hub's messages besides envelope and view: hello, lists of what is
 * revoked, resources, questions, answers, ranges and names of pods, and hub.url. */
#include <assert.h>
#include <string.h>

#include "meta/client/message.h"
#include "model/check.h"
#include "model/pod_name.h"
#include "model/pod_ranges.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is taken, is written and taken again as the same. */
static void
as_pod_ranges(const char *text, size_t size)
{
	struct pod_ranges r, again;
	auto_buf struct buf written;

	buf_init(&written, BUF_UNLIMITED);
	if (pod_ranges_parse(&r, text, size, NULL) < 0)
		return;
	pod_ranges_build(&written, &r);
	assert(pod_ranges_parse(&again, buf_at(&written), buf_len(&written), NULL) == 0);
	assert(pod_ranges_same(&r, &again));
	for (size_t i = 0; i < r.n; i++)
		assert(r.list[i].first <= r.list[i].last &&
			(i == 0 || r.list[i].first > r.list[i - 1].last));
	pod_ranges_fini(&r);
	pod_ranges_fini(&again);
}

static void
as_pod_name(const char *text, size_t size)
{
	char ip[INET6_ADDRSTRLEN], name[POD_NAME_MAX];
	struct in6_addr parsed;

	if (!pod_name_ip(text, size, ip))
		return;
	assert(ip_parse(ip, &parsed));
	assert(pod_name_of(name, ip) && pod_name_is(name, strlen(name)));
	assert(check_service(name, strlen(name)));
}

static void
as_revoked(const char *json, size_t size)
{
	auto_free char *crl = message_crl(json, size), *nodes = message_revoked(json, size);

	assert(crl == NULL || crl[0] != '\0');
	for (const char *at = nodes; at != NULL && strcmp(at, "\n") > 0; at = strchr(at + 1, '\n'))
		assert(at[0] == '\n' && strchr(at, ' ') > at + 1);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *text = xstrndup((const char *)data, size);
	struct message_hello hello;
	struct message_service service;
	struct message_url url;

	if (message_hello(&hello, (const char *)data, size, NULL) == 0)
		assert(strlen(hello.site) < sizeof(hello.site) &&
			strlen(hello.hub) < sizeof(hello.hub));
	as_revoked((const char *)data, size);
	message_says_synced((const char *)data, size);
	if (message_service(&service, text, NULL) == 0)
		assert(service.ns[0] != '\0' && service.name[0] != '\0' &&
			strchr(service.ns, '/') == NULL);
	if (message_health(&service, text, NULL) == 0)
		assert(service.name[0] != '\0' && strchr(service.name, '/') == NULL);
	if (message_url(&url, text, NULL) == 0)
		assert(url.host[0] != '\0' && url.port != 0);
	message_inside(text, "cluster.local");
	as_pod_ranges((const char *)data, size);
	as_pod_name((const char *)data, size);
	return 0;
}
