/*
 * Where the API server is and how to prove who we are: from a kubeconfig file, or, with path "",
 * from what every pod is given (KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT and the folder of
 * its service account). Read it again before a request: tokens and certificates are exchanged under
 * a running hub.
 *
 * Of a kubeconfig: the current context and its namespace; of its cluster server,
 * certificate-authority(-data), tls-server-name and proxy-url; of its user token, tokenFile,
 * client-certificate(-data) and client-key(-data). What would run a program, log in by other means
 * or trust anybody is refused, with file and line.
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
