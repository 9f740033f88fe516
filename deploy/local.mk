# systemd units, with the folders of this configuration; sample files for /etc/edgeway
if SYSTEMD
systemdsystemunit_DATA = deploy/edgeway-agent.service
if HUB
systemdsystemunit_DATA += deploy/edgeway-hub.service
sysusersdir = $(prefix)/lib/sysusers.d
dist_sysusers_DATA = deploy/sysusers/edgeway-hub.conf
tmpfilesdir = $(prefix)/lib/tmpfiles.d
dist_tmpfiles_DATA = deploy/tmpfiles/edgeway-hub.conf
endif
endif
sampledir = $(docdir)
dist_sample_DATA = deploy/agent.yaml
if HUB
dist_sample_DATA += deploy/hub.yaml
endif
CLEANFILES += deploy/edgeway-agent.service deploy/edgeway-hub.service
EXTRA_DIST += deploy/seccomp/calls deploy/edgeway-agent.service.in deploy/edgeway-hub.service.in deploy/build-for deploy/packages deploy/quickstart deploy/quickstart.py \
	deploy/Dockerfile deploy/Dockerfile.dockerignore deploy/image-root

# For container runtimes: a profile, and what prints it (tests/net/node/test_seccomp.py compares)
seccompdir = $(docdir)/kubernetes/seccomp
dist_seccomp_DATA = deploy/seccomp/edgeway.json
check_PROGRAMS += deploy/seccomp/profile
deploy_seccomp_profile_SOURCES = deploy/seccomp/profile.c
deploy_seccomp_profile_LDADD = base/libbase.a

# kubectl apply -k
kubernetesdir = $(docdir)/kubernetes
kubernetesconfigdir = $(docdir)/kubernetes/config
dist_kubernetes_DATA = deploy/kubernetes/kustomization.yaml deploy/kubernetes/namespace.yaml deploy/kubernetes/rbac.yaml \
	deploy/kubernetes/rbac-approval.yaml deploy/kubernetes/hub.yaml deploy/kubernetes/agent.yaml \
	deploy/kubernetes/network-policy.yaml deploy/kubernetes/rbac-destinationrules.yaml deploy/kubernetes/rbac-gateway.yaml deploy/kubernetes/rbac-hosts.yaml deploy/kubernetes/rbac-networkpolicies.yaml deploy/kubernetes/rbac-sites.yaml deploy/kubernetes/redirect.yaml \
	deploy/kubernetes/web.yaml deploy/kubernetes/web-hub.yaml
kubernetesmonitoringdir = $(docdir)/kubernetes/monitoring
dist_kubernetesmonitoring_DATA = deploy/kubernetes/monitoring/kustomization.yaml deploy/kubernetes/monitoring/alerts.yaml deploy/kubernetes/monitoring/rules.yaml \
	deploy/kubernetes/monitoring/servicemonitor.yaml deploy/kubernetes/monitoring/dashboard.json
EXTRA_DIST += deploy/kubernetes/monitoring/rules_test.yaml
kubernetesk3sdir = $(docdir)/kubernetes/distributions/k3s
dist_kubernetesk3s_DATA = deploy/kubernetes/distributions/k3s/kustomization.yaml
kubernetesresolveddir = $(docdir)/kubernetes/resolved
dist_kubernetesresolved_DATA = deploy/kubernetes/resolved/kustomization.yaml
kuberneteskubeadmdir = $(docdir)/kubernetes/distributions/kubeadm
dist_kuberneteskubeadm_DATA = deploy/kubernetes/distributions/kubeadm/kustomization.yaml
kuberneteskubeedgedir = $(docdir)/kubernetes/distributions/kubeedge
dist_kuberneteskubeedge_DATA = deploy/kubernetes/distributions/kubeedge/kustomization.yaml
kubernetesopenyurtdir = $(docdir)/kubernetes/distributions/openyurt
dist_kubernetesopenyurt_DATA = deploy/kubernetes/distributions/openyurt/kustomization.yaml
dist_kubernetesconfig_DATA = deploy/kubernetes/config/hub.yaml deploy/kubernetes/config/agent.yaml

# The chart has the manifests by a link that leads there from the sources and from $(docdir) alike.
helmdir = $(docdir)/helm/edgeway
helmtemplatesdir = $(helmdir)/templates
dist_helm_DATA = deploy/helm/edgeway/Chart.yaml deploy/helm/edgeway/README.md deploy/helm/edgeway/values.yaml \
	deploy/helm/edgeway/values-k3s.yaml deploy/helm/edgeway/values-kubeadm.yaml deploy/helm/edgeway/values-kubeedge.yaml deploy/helm/edgeway/values-openyurt.yaml \
	deploy/helm/edgeway/values.schema.json deploy/helm/edgeway/.helmignore
dist_helmtemplates_DATA = deploy/helm/edgeway/templates/_helpers.tpl deploy/helm/edgeway/templates/_secrets.tpl \
	deploy/helm/edgeway/templates/agent.yaml deploy/helm/edgeway/templates/secrets.yaml \
	deploy/helm/edgeway/templates/config.yaml deploy/helm/edgeway/templates/hub.yaml deploy/helm/edgeway/templates/monitoring.yaml \
	deploy/helm/edgeway/templates/namespace.yaml deploy/helm/edgeway/templates/network-policy.yaml \
	deploy/helm/edgeway/templates/NOTES.txt deploy/helm/edgeway/templates/rbac.yaml deploy/helm/edgeway/templates/web.yaml
EXTRA_DIST += deploy/helm/edgeway/kubernetes
install-data-hook: install-helm-link
install-helm-link: install-dist_helmDATA
	cd '$(DESTDIR)$(helmdir)' && rm -f kubernetes && ln -s ../../kubernetes kubernetes
uninstall-hook: uninstall-helm-link
uninstall-helm-link:
	rm -f '$(DESTDIR)$(helmdir)/kubernetes'
.PHONY: install-helm-link uninstall-helm-link

deploy/%.service: deploy/%.service.in deploy/seccomp/calls Makefile
	$(AM_V_GEN)$(MKDIR_P) deploy && sed -e 's|@sbindir[@]|$(sbindir)|g' -e 's|@sysconfdir[@]|$(sysconfdir)|g' \
		-e "s|@system_calls[@]|$$(tr '\n' ' ' < $(srcdir)/deploy/seccomp/calls)|" $< > $@

# Shell completion
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/vendor-completions
dist_bashcompletion_DATA = deploy/completion/edgewayctl
dist_zshcompletion_DATA = deploy/completion/_edgewayctl

# Debian packages, into packages/ of the build's folder
EXTRA_DIST += deploy/make-packages deploy/debian/changelog deploy/debian/control deploy/debian/copyright \
	deploy/debian/edgeway-agent.install deploy/debian/edgeway-agent.lintian-overrides \
	deploy/debian/edgeway-agent.manpages deploy/debian/edgeway-agent.postinst deploy/debian/edgeway-agent.postrm deploy/debian/edgeway-agent.prerm \
	deploy/debian/edgeway-ctl.docs deploy/debian/edgeway-ctl.install deploy/debian/edgeway-ctl.lintian-overrides deploy/debian/edgeway-ctl.manpages \
	deploy/debian/edgeway-hub.dirs deploy/debian/edgeway-hub.install deploy/debian/edgeway-hub.lintian-overrides \
	deploy/debian/edgeway-hub.manpages deploy/debian/edgeway-hub.postrm deploy/debian/not-installed deploy/debian/rules \
	deploy/debian/source/format
packages: dist
	$(srcdir)/deploy/make-packages $(distdir).tar.xz packages
.PHONY: packages

# What the programs are made of: SPDX, into the build's folder
EXTRA_DIST += deploy/sbom
SBOM = edgeway-$(PACKAGE_VERSION).spdx.json
CLEANFILES += $(SBOM) $(SBOM).new
sbom: $(bin_PROGRAMS) $(sbin_PROGRAMS)
	$(AM_V_GEN)$(srcdir)/deploy/sbom --version '$(PACKAGE_VERSION)' --llhttp '$(LLHTTP_SOURCE)' $(bin_PROGRAMS) $(sbin_PROGRAMS) \
		> $(SBOM).new && mv $(SBOM).new $(SBOM)
.PHONY: sbom

# All that is published, signed, of the last commit, into release/ of the build's folder
EXTRA_DIST += deploy/release
release:
	$(srcdir)/deploy/release --to release $(RELEASE_ARCHITECTURES)
.PHONY: release
