/*
 * Decides whether a request to the hub's page may be answered (hub/page/web.h). Pure; a leaf that
 * gets request heads of strangers. The page is read-only: GET and HEAD. The Host must be an
 * address, localhost or one of the page's names, so that nobody's page can point a name of its own
 * here (DNS rebinding). An Origin must be the page's own, so that no other page can open the
 * websocket with the credentials of its visitor.
 *
 *	status = web_judge(&head, names, secure, &why);	// 0, or the status to refuse with
 *	secret = web_secret(&head);			// Bearer, or the password of Basic
 */
#ifndef EDGEWAY_HUB_PAGE_WEB_JUDGE_H
#define EDGEWAY_HUB_PAGE_WEB_JUDGE_H

#include "base/http/http1.h"

/* names: ended by NULL; NULL: none. secure: it came by TLS. *why is static. */
unsigned web_judge(
	const struct http1_head *h, const char *const *names, bool secure, const char **why);
/* The token with which the client authenticates, to be freed. NULL: none, or unreadable. */
char *web_secret(const struct http1_head *h);
/* Returns true if the client has the file with this tag (RFC 9110 section 13.1.2). */
bool web_unchanged(const struct http1_head *h, const char *etag);

#endif
