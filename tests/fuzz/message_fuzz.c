/* What the agent reads in the hub's messages besides envelope and view: hello, resources,
 * questions, answers, and hub.url. */
#include <assert.h>
#include <string.h>

#include "meta/client/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
	message_says_synced((const char *)data, size);
	if (message_service(&service, text, NULL) == 0)
		assert(service.ns[0] != '\0' && service.name[0] != '\0' &&
			strchr(service.ns, '/') == NULL);
	if (message_health(&service, text, NULL) == 0)
		assert(service.name[0] != '\0' && strchr(service.name, '/') == NULL);
	if (message_url(&url, text, NULL) == 0)
		assert(url.host[0] != '\0' && url.port != 0);
	message_inside(text, "cluster.local");
	return 0;
}
