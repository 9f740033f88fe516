#include <string.h>

#include "meta/feed_private.h"

/* TLS's word for it (RFC 8446 section 6.2), as base/pki_tls tells it. */
static const char alert_expired[] = "refused the TLS connection: certificate expired";

bool
feed_certificate_refused(const char *why)
{
	return strstr(why, "status 410") != NULL || strstr(why, alert_expired) != NULL;
}

const char *
feed_remedy(const struct feed *f, const char *why)
{
	if (strstr(why, "status 401") != NULL && feed_by_approval(f))
		return "the hub takes no node without a token: set join.approval on the hub, or "
		       "make a token with `edgewayctl token create`";
	if (strstr(why, "status 401") != NULL)
		return "the hub refused the token (wrong or expired): make one with `edgewayctl "
		       "token create` on the "
		       "hub and set hub.token";
	if (strstr(why, "status 403") != NULL && f->joining)
		return "the hub has a certificate for this node's name already: make a token with "
		       "`edgewayctl token "
		       "create --node NAME` on the hub, or bring back node.crt and node.key";
	if (strstr(why, "status 403") != NULL)
		return "the hub refused this node's certificate: its name is not the node's; join "
		       "again with a token";
	if (strstr(why, "status 410") != NULL)
		return f->has_token
			? "the hub says that this node's certificate was revoked; joining again "
			  "with hub.token"
			: "the hub says that this node's certificate was revoked: make a token "
			  "with `edgewayctl token create --node NAME` on the hub and set hub.token";
	if (strstr(why, "status 426") != NULL)
		return "the hub speaks another protocol than this agent: upgrade the older one of "
		       "the two";
	if (!f->joining && (feed_expired(f) || strstr(why, alert_expired) != NULL))
		return f->has_token
			? "this node's certificate has expired; joining again with hub.token"
			: "this node's certificate has expired: make a token with `edgewayctl "
			  "token "
			  "create --node NAME` on the hub and set hub.token";
	return NULL;
}
