#include "hub/identity/own_service.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "hub/kube/follow.h"
#include "model/check.h"
#include "model/json.h"

struct own_service {
	struct own_service_config config;
	struct follow *follow;
	char *ns, *name, *domain;
	char *path, *what; /* of `follow` */
	struct names names;
	bool changed;
	char missing[200]; /* "": the Service exists */
	unsigned seen; /* round of the list in which it was last seen */
};

/* The cluster's data goes into a certificate: accepts only valid names and addresses. */
static void
own_service_add(struct names *names, const char *text)
{
	size_t len = strlen(text);

	if (check_ip(text, len) || check_subdomain(text, len))
		names_add(names, text);
}

static void
add_texts(struct names *names, const struct tree_node *list)
{
	tree_each(list, n) {
		own_service_add(names, tree_text(n, ""));
	}
}

static void
add_dns(const struct own_service *o, struct names *names)
{
	auto_free char *brief = xasprintf("%s.%s", o->name, o->ns);
	auto_free char *svc = xasprintf("%s.svc", brief);
	auto_free char *whole = xasprintf("%s.%s", svc, o->domain);

	names_add(names, brief);
	names_add(names, svc);
	names_add(names, whole);
}

static void
take_names(const struct own_service *o, const struct tree_node *object, struct names *names)
{
	add_dns(o, names);
	tree_each(tree_path(object, "status.loadBalancer.ingress"), n) {
		own_service_add(names, tree_text(tree_get(n, "ip"), ""));
		own_service_add(names, tree_text(tree_get(n, "hostname"), ""));
	}
	add_texts(names, tree_path(object, "spec.externalIPs"));
	add_texts(names, tree_path(object, "spec.clusterIPs"));
	/* "None" is no address, and because of its upper case no name either. */
	own_service_add(names, tree_text(tree_path(object, "spec.clusterIP"), ""));
}

static void
on_object(void *arg, const struct tree_node *object, bool gone)
{
	struct own_service *o = arg;
	struct names now = {0};

	o->seen = follow_round(o->follow);
	o->missing[0] = '\0';
	if (gone) {
		snprintf(o->missing, sizeof o->missing, "%.150s is gone", o->what);
		return;
	}
	take_names(o, object, &now);
	if (names_hold(&o->names, &now) && names_hold(&now, &o->names)) {
		names_fini(&now);
		return;
	}
	names_fini(&o->names);
	o->names = now;
	o->changed = true;
}

static void
on_listed(void *arg)
{
	struct own_service *o = arg;

	if (o->seen != follow_round(o->follow))
		snprintf(o->missing, sizeof o->missing, "there is no %.150s", o->what + 4);
}

static void
on_told(void *arg)
{
	struct own_service *o = arg;

	if (!o->changed)
		return;
	o->changed = false;
	o->config.changed(o->config.arg);
}

int
own_service_start(
	struct own_service **out, const struct own_service_config *config, struct err *err)
{
	const char *slash = strchr(config->service, '/');
	struct own_service *o;
	struct follow_config follow = {
		.loop = config->loop,
		.api = config->api,
		.rights = "the verbs list and watch on services",
		.object = on_object,
		.listed = on_listed,
		.told = on_told,
	};

	*out = NULL;
	if (slash == NULL || !check_label(config->service, (size_t)(slash - config->service)) ||
		!check_label(slash + 1, strlen(slash + 1)))
		return err_set(err, EINVAL, "\"%.120s\" is not NAMESPACE/NAME of a Service",
			config->service);
	o = xcalloc(1, sizeof *o);
	o->config = *config;
	o->ns = xstrndup(config->service, (size_t)(slash - config->service));
	o->name = xstrdup(slash + 1);
	o->domain = xstrdup(config->cluster_domain);
	o->path = xasprintf(
		"/api/v1/namespaces/%s/services?fieldSelector=metadata.name%%3D%s", o->ns, o->name);
	o->what = xasprintf("the Service %s/%s", o->ns, o->name);
	add_dns(o, &o->names);
	follow.path = o->path;
	follow.what = o->what;
	follow.arg = o;
	o->follow = follow_start(&follow);
	*out = o;
	return 0;
}

void
own_service_stop(struct own_service **out)
{
	struct own_service *o = take_ptr(out);

	if (o == NULL)
		return;
	follow_stop(&o->follow);
	names_fini(&o->names);
	free(o->ns);
	free(o->name);
	free(o->domain);
	free(o->path);
	free(o->what);
	free(o);
}

const struct names *
own_service_names(const struct own_service *o)
{
	return &o->names;
}

void
own_service_state(const struct own_service *o, struct buf *out)
{
	buf_printf(out, "{\"service\":\"%s/%s\",\"names\":[", o->ns, o->name);
	for (size_t i = 0; i < o->names.n; i++) {
		buf_adds(out, i > 0 ? "," : "");
		json_add_text(out, o->names.name[i]);
	}
	buf_adds(out, "],\"problem\":");
	json_add_text(out, o->missing[0] != '\0' ? o->missing : follow_problem(o->follow));
	buf_adds(out, "}");
}
