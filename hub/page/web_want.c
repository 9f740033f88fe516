#include "hub/page/web_want.h"

#include <errno.h>
#include <string.h>

#include "base/http/admin.h"

enum { FROM_DIGITS = 7, WORD_MAX = 16 };

/* The index of this key's word; -EINVAL: an unknown word. 0 without the key. */
static int
read_word(const char *line, const char *key, const char *const *words, int n)
{
	char text[WORD_MAX] = "";
	int rc = admin_query(line, key, text, sizeof text);

	if (rc <= 0)
		return rc;
	for (int i = 0; i < n; i++)
		if (strcmp(words[i], text) == 0)
			return i;
	return -EINVAL;
}

static int
read_flag(const char *line, const char *key, bool *to)
{
	char text[WORD_MAX] = "";
	int rc = admin_query(line, key, text, sizeof text);

	*to = rc == 1;
	return rc;
}

static int
read_from(const char *line, unsigned *to)
{
	char text[FROM_DIGITS + 1] = "0";
	int rc = admin_query(line, "from", text, sizeof text);

	if (rc < 0 || text[strspn(text, "0123456789")] != '\0')
		return -EINVAL;
	*to = (unsigned)strtoul(text, NULL, 10);
	return 0;
}

static int
read_all(struct want *to, const char *line)
{
	static const char *const views[WANT_VIEWS] = {
		"overview", "nodes", "services", "events", "node", "service"};
	static const char *const sorts[SORTS] = {"name", "site", "health", "streams", "rtt", "in",
		"out", "since", "endpoints", "ready"};
	int view = read_word(line, "view", views, WANT_VIEWS);
	int sort = read_word(line, "sort", sorts, SORTS), site;

	if (view < 0 || sort < 0)
		return -EINVAL;
	to->view = (enum want_view)view;
	to->sort = (enum want_sort)sort;
	if (read_flag(line, "desc", &to->desc) < 0 ||
		read_flag(line, "troubled", &to->troubled) < 0 || read_from(line, &to->from) < 0 ||
		admin_query(line, "q", to->q, sizeof to->q) < 0 ||
		admin_query(line, "name", to->name, sizeof to->name) < 0 ||
		(site = admin_query(line, "site", to->site, sizeof to->site)) < 0)
		return -EINVAL;
	to->has_site = site == 1;
	return 0;
}

int
want_parse(struct want *to, const char *line)
{
	int rc;

	*to = (struct want){0};
	rc = read_all(to, line);
	if (rc < 0)
		*to = (struct want){0};
	return rc;
}
