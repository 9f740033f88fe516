#include "src/hub/hub_rights.h"

#include "base/core/log.h"
#include "base/core/privileges.h"

static const char *
foreign_file(const char *path)
{
	return path != NULL && path[0] != '\0' && privileges_foreign(path) ? path : NULL;
}

/* A path among the files that hub/ingress/listeners.c reads for a listener or for connections to
 * the targets. */
static const char *
foreign_entry(const struct tree_node *entry)
{
	static const char *const keys[] = {
		"cert", "key", "clientCA", "clientCert", "clientKey", "serverCA"};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *path = foreign_file(tree_text(tree_get(entry, keys[i]), ""));

		if (path != NULL)
			return path;
	}
	return NULL;
}

/* A path that needs more privileges than usual, or NULL. */
static const char *
foreign_path(const struct hub_options *o)
{
	const char *const paths[] = {o->data_dir, o->source_manifests,
		o->source_kubernetes_kubeconfig, o->tls_cert, o->tls_key, o->tls_ca, o->tls_ca_key};
	const char *path = foreign_entry(o->ingress_egress);

	for (size_t i = 0; i < ARRAY_LEN(paths) && path == NULL; i++)
		path = foreign_file(paths[i]);
	tree_each(o->ingress_tls, entry) {
		if (path == NULL)
			path = foreign_entry(entry);
	}
	return path;
}

void
hub_rights_reduce(const struct hub_options *o)
{
	const char *foreign = foreign_path(o);
	uint64_t keep = PRIVILEGE_NET_BIND;
	struct err err = {0};

	if (o->ingress_redirect != NULL)
		keep |= PRIVILEGE_NET_ADMIN;
	if (foreign != NULL && (privileges_held() & PRIVILEGE_FOREIGN_FILES) != 0) {
		keep |= PRIVILEGE_FOREIGN_FILES;
		log_info("hub",
			"keeps the right to other users' files (CAP_DAC_OVERRIDE, CAP_CHOWN, "
			"CAP_FOWNER), since one that it needs is not its own path=%s",
			foreign);
	}
	if (privileges_keep(keep, &err) < 0)
		log_warn("hub",
			"cannot give up privileges, going on with all of them: is capset(2) "
			"forbidden here? error=\"%s\"",
			err.text);
	log_debug("hub", "privileges reduced capabilities=%#llx no_new_privs=true",
		(unsigned long long)privileges_held());
}
