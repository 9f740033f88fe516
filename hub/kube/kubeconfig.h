/*
 * The address of the API server and our credentials: from a kubeconfig file, or, with path "", from
 * the data in every pod (KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT and the folder of its
 * service account). Read it again before a request: tokens and certificates are replaced while the
 * hub runs.
 *
 * Of a kubeconfig it uses the current context and its namespace; of its cluster server,
 * certificate-authority(-data), tls-server-name and proxy-url; of its user token, tokenFile,
 * client-certificate(-data) and client-key(-data). Entries that would run a program, log in by
 * other means or disable verification are refused, with file and line.
 *
 *	rc = kubeconfig_read(&peer, "/etc/edgeway/kubeconfig", &err);
 *	kubeconfig_peer_fini(&peer);
 */
#ifndef EDGEWAY_HUB_KUBE_KUBECONFIG_H
#define EDGEWAY_HUB_KUBE_KUBECONFIG_H

#include "hub/kube/https.h"

#define KUBECONFIG_POD_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"

/* Every text is set, "" when absent. */
int kubeconfig_read(struct https_peer *peer, const char *path, struct err *err);
void kubeconfig_peer_fini(struct https_peer *peer);

#endif
