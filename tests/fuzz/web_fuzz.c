/*
 * What strangers say to the hub's page: a head, of which all is judged (method, Host, Origin,
 * credentials, the handshake of a websocket), and lines of what a viewer wants. Only GET and HEAD
 * without a body and for a name of ours get through, and what a line wants is within its bounds.
 */
#include <assert.h>
#include <string.h>

#include "base/http/wshake.h"
#include "hub/page/web_files.h"
#include "hub/page/web_judge.h"
#include "hub/page/web_want.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void
read_head(const char *data, size_t len)
{
	static const char *const names[] = {"hub.test", NULL};
	auto_free struct http1_head *h = xcalloc(1, sizeof *h);
	auto_free char *secret = NULL;
	char accept[WSHAKE_ACCEPT_TEXT];
	const char *why;
	size_t from = 0;
	ssize_t n = http1_find_end(data, len, &from);

	if (n <= 0 || http1_parse_request(h, data, (size_t)n) != 0)
		return;
	if (web_judge(h, names, true, &why) == 0)
		assert((h->is_head || memcmp(h->method.at, "GET", 3) == 0) && h->host.len > 0 &&
			h->length == 0);
	else
		assert(*why != '\0');
	secret = web_secret(h);
	if (wshake_judge(h, NULL, accept, &why) == 0)
		assert(strlen(accept) == WSHAKE_ACCEPT_TEXT - 1);
	(void)web_unchanged(h, "\"0123456789abcdef\"");
	(void)web_file_find(h->target.at, h->target.len);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	auto_free char *line = xstrndup((const char *)data, len);
	struct want want;

	read_head((const char *)data, len);
	if (want_parse(&want, line) < 0)
		assert(want.view == WANT_OVERVIEW && want.q[0] == '\0');
	assert(want.view < WANT_VIEWS && want.sort < SORTS && strlen(want.q) < sizeof want.q &&
		strlen(want.name) < sizeof want.name && strlen(want.site) < sizeof want.site);
	return 0;
}
