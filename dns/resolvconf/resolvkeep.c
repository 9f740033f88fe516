#include "dns/resolvconf/resolvkeep.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/buf.h"

#define HEAD "edgeway-resolv-conf 1 "

void
resolv_original_fini(struct resolv_original *o)
{
	free(o->link);
	free(o->text);
	free(o->ours);
	free(o->before);
	*o = (struct resolv_original){0};
}

char *
resolv_original_pack(const struct resolv_original *o, size_t *len)
{
	const char *link = o->link != NULL ? o->link : "";
	struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	buf_printf(&b, HEAD "%u %o %u %u %zu %zu %zu %zu\n", (unsigned)o->kind, o->mode, o->uid,
		o->gid, strlen(link), o->len, o->ours_len, o->before_len);
	buf_adds(&b, link);
	buf_add(&b, o->text, o->len);
	buf_add(&b, o->ours, o->ours_len);
	buf_add(&b, o->before, o->before_len);
	*len = buf_len(&b);
	return buf_take_str(&b);
}

/* A resolv.conf may contain any byte, even NUL; the copy is NUL-terminated in any case. */
static char *
resolvkeep_copy(const char *bytes, size_t n)
{
	char *s = xmalloc(n + 1);

	memcpy(s, bytes, n);
	s[n] = '\0';
	return s;
}

int
resolv_original_unpack(struct resolv_original *o, const char *data, size_t len)
{
	unsigned kind;
	size_t link_len, room;
	const char *body = memchr(data, '\n', MIN(len, (size_t)256));
	auto_free char *head = body != NULL ? xstrndup(data, (size_t)(body - data)) : NULL;

	*o = (struct resolv_original){0};
	/* earlier versions had no `before` */
	if (head == NULL ||
		sscanf(head, HEAD "%u %o %u %u %zu %zu %zu %zu", &kind, &o->mode, &o->uid, &o->gid,
			&link_len, &o->len, &o->ours_len, &o->before_len) < 7)
		goto bad;
	body++;
	room = len - (size_t)(body - data);
	if (kind > RESOLV_MISSING || o->mode > 07777 || link_len > room ||
		o->len > room - link_len || o->ours_len > room - link_len - o->len ||
		o->before_len != room - link_len - o->len - o->ours_len)
		goto bad;
	o->kind = (enum resolv_kind)kind;
	o->link = kind == RESOLV_LINK ? xstrndup(body, link_len) : NULL;
	o->text = resolvkeep_copy(body + link_len, o->len);
	o->ours = resolvkeep_copy(body + link_len + o->len, o->ours_len);
	o->before = resolvkeep_copy(body + link_len + o->len + o->ours_len, o->before_len);
	return 0;
bad:
	*o = (struct resolv_original){0};
	return -EINVAL;
}
