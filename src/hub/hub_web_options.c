#include <string.h>

#include "src/common/option_checks.h"
#include "src/hub/hub_options.h"

#define complain(o, key, err, ...) opt_complain(o, key, NULL, err, __VA_ARGS__)

static int
check_names(const struct hub_options *o, struct err *err)
{
	for (char **at = o->web_names; *at != NULL; at++)
		if (!option_is_dns_name(*at))
			return complain(o, "web.names", err,
				"\"%.80s\" is not a DNS name in lower case", *at);
	return 0;
}

/* Beyond this machine the page must be encrypted, and viewers must be allowed by certificate. */
static int
check_open(const struct hub_options *o, struct err *err)
{
	if (hub_options_is_loopback(o->web_listen))
		return 0;
	if (o->web_cert[0] == '\0')
		return complain(o, "web.listen", err,
			"%s can be reached by others: set web.cert and web.key, or listen on "
			"127.0.0.1",
			o->web_listen);
	if (o->web_client_ca[0] == '\0' && (o->access == NULL || !hub_names_web(o->access)))
		return complain(o, "web.listen", err,
			"%s can be reached by others: say in access who may see the page, {from: "
			"..., to: ['hub:web']}, or set web.clientCA, or listen on 127.0.0.1",
			o->web_listen);
	return 0;
}

int
hub_options_check_web(const struct hub_options *o, struct err *err)
{
	struct option_check c = {.values = o, .err = err};
	int rc = option_pair(&c, "web.cert", o->web_cert, "web.key", o->web_key);

	if (rc == 0 && o->web_client_ca[0] != '\0' && o->web_cert[0] == '\0')
		rc = complain(o, "web.clientCA", err, "needs web.cert and web.key as well");
	if (rc == 0)
		rc = check_names(o, err);
	return rc == 0 ? check_open(o, err) : rc;
}
