#include "src/common/option_files.h"

#include <string.h>

#include "base/core/util.h"

enum { SECRET_BYTES_MAX = 16384 };

static const char blanks[] = " \t\r\n";

#define complain(c, key, ...) opt_complain((c)->values, key, NULL, (c)->err, __VA_ARGS__)

static int
read_text(const struct option_check *c, const char *key, const char *path, const char *value_key,
	bool given, char **text)
{
	auto_free char *read = NULL;
	size_t len;
	int rc;

	if (given)
		return complain(c, key, "%s is given as well: set one of them", value_key);
	if (path[0] != '/')
		return complain(c, key, "expected a full path such as /etc/edgeway/token");
	if ((rc = file_read(path, SECRET_BYTES_MAX, &read, &len)) < 0)
		return complain(c, key, "cannot read %s: %s", path, strerror(-rc));
	if (strlen(read) != len)
		return complain(c, key, "%s is no text", path);
	*text = xstrdup(text_strip(read));
	return **text == '\0' ? complain(c, key, "%s is empty", path) : 0;
}

int
option_from_file(const struct option_check *c, const char *key, const char *path,
	const char *value_key, char **value)
{
	auto_free char *text = NULL;
	int rc;

	if (path[0] == '\0')
		return 0;
	if ((rc = read_text(c, key, path, value_key, (*value)[0] != '\0', &text)) < 0)
		return rc;
	if (strchr(text, '\n') != NULL)
		return complain(c, key, "%s has more than one line", path);
	free(*value);
	*value = take_ptr(&text);
	return 0;
}

int
option_list_from_file(const struct option_check *c, const char *key, const char *path,
	const char *value_key, char ***list)
{
	auto_free char *text = NULL;
	char *save = NULL;
	size_t n = 0;
	int rc;

	if (path[0] == '\0')
		return 0;
	if ((rc = read_text(c, key, path, value_key, **list != NULL, &text)) < 0)
		return rc;
	for (char *line = strtok_r(text, "\r\n", &save); line != NULL;
		line = strtok_r(NULL, "\r\n", &save)) {
		line += strspn(line, blanks);
		if (line[0] == '\0' || line[0] == '#')
			continue;
		*list = xrealloc(*list, (n + 2) * sizeof **list);
		(*list)[n++] = xstrdup(line);
		(*list)[n] = NULL;
	}
	return 0;
}
