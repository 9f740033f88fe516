# systemd units, with the folders of this configuration; sample files for /etc/edgeway
if SYSTEMD
systemdsystemunit_DATA = deploy/edgeway-agent.service deploy/edgeway-hub.service
endif
sampledir = $(docdir)
dist_sample_DATA = deploy/agent.yaml deploy/hub.yaml
CLEANFILES += deploy/edgeway-agent.service deploy/edgeway-hub.service
EXTRA_DIST += deploy/edgeway-agent.service.in deploy/edgeway-hub.service.in deploy/packages deploy/quickstart deploy/quickstart.py \
	deploy/Dockerfile deploy/Dockerfile.dockerignore

# kubectl apply -k
kubernetesdir = $(docdir)/kubernetes
kubernetesconfigdir = $(docdir)/kubernetes/config
dist_kubernetes_DATA = deploy/kubernetes/kustomization.yaml deploy/kubernetes/namespace.yaml deploy/kubernetes/rbac.yaml \
	deploy/kubernetes/rbac-approval.yaml deploy/kubernetes/hub.yaml deploy/kubernetes/agent.yaml \
	deploy/kubernetes/network-policy.yaml deploy/kubernetes/rbac-sites.yaml
kubernetesmonitoringdir = $(docdir)/kubernetes/monitoring
dist_kubernetesmonitoring_DATA = deploy/kubernetes/monitoring/kustomization.yaml deploy/kubernetes/monitoring/alerts.yaml \
	deploy/kubernetes/monitoring/servicemonitor.yaml deploy/kubernetes/monitoring/dashboard.json
EXTRA_DIST += deploy/kubernetes/monitoring/alerts_test.yaml
dist_kubernetesconfig_DATA = deploy/kubernetes/config/hub.yaml deploy/kubernetes/config/agent.yaml

deploy/%.service: deploy/%.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) deploy && sed -e 's|@sbindir[@]|$(sbindir)|g' -e 's|@sysconfdir[@]|$(sysconfdir)|g' $< > $@

# Shell completion
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/vendor-completions
dist_bashcompletion_DATA = deploy/completion/edgewayctl
dist_zshcompletion_DATA = deploy/completion/_edgewayctl
