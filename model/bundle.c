#include "model/bundle.h"

#include <assert.h>
#include <errno.h>

#include "base/core/gzip.h"

void
bundle_build(struct buf *out, const char *source, const char *id, const struct buf *lines)
{
	struct saying say = {.source = source, .operation = OP_INSERT, .resource = BUNDLE_RESOURCE};
	auto_buf struct buf content;
	char fresh[37];

	assert(buf_len(lines) > 0 && lines->data[lines->end - 1] == '\n');
	buf_init(&content, BUF_UNLIMITED);
	buf_adds(&content, "\"");
	gzip_text(&content, buf_at(lines), buf_len(lines));
	buf_adds(&content, "\"");
	say.content = buf_at(&content);
	say.content_len = buf_len(&content);
	envelope_new_id(fresh);
	envelope_say(out, &say, id != NULL ? id : fresh);
}

void
bundle_inherit(struct envelope *inner, const struct envelope *bundle)
{
	if (inner->id[0] != '\0')
		return;
	free(inner->id);
	inner->id = xstrdup(bundle->id);
}

bool
bundle_is(const struct envelope *e)
{
	return e->operation == OP_INSERT && strcmp(e->resource, BUNDLE_RESOURCE) == 0;
}

static int
check_lines(const struct buf *lines, struct err *err)
{
	const char *at = buf_at(lines), *end = at + buf_len(lines);
	size_t n = 0;

	if (at == end || end[-1] != '\n')
		return err_set(err, EBADMSG, "bundle: its last line has no end");
	for (; at < end; at = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1) {
		if (++n > BUNDLE_LINES_MAX)
			return err_set(err, EMSGSIZE, "bundle: more than %d messages",
				(int)BUNDLE_LINES_MAX);
	}
	return 0;
}

int
bundle_open(struct buf *lines, const struct envelope *e, struct err *err)
{
	int rc;

	buf_init(lines, ENVELOPE_MAX_BYTES);
	if (e->content_len < 2 || e->content[0] != '"')
		return err_set(err, EBADMSG, "bundle: the content is no text");
	rc = unpack_text(lines, e->content + 1, e->content_len - 2, err);
	if (rc < 0)
		return err_wrap(err, rc, "bundle");
	return check_lines(lines, err);
}

const char *
bundle_next(struct buf *lines, size_t *len)
{
	char *at = buf_at(lines), *end;

	if (buf_len(lines) == 0)
		return NULL;
	end = memchr(at, '\n', buf_len(lines));
	assert(end != NULL); /* checked by bundle_open */
	*end = '\0';
	*len = (size_t)(end - at);
	buf_consume(lines, *len + 1);
	return at;
}
