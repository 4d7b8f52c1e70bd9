package main

import (
	"encoding/json"
	"net/http"
	"net/http/cgi"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
)

// serveFiles serves a folder, with ranges and lists of folders.
func serveFiles(folder string) (http.Handler, error) {
	return http.FileServer(http.Dir(folder)), nil
}

// serveProxy serves what the server at address answers.
func serveProxy(address string) (http.Handler, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}, nil
}

// serveGit serves the repositories in folder.
func serveGit(folder string) (http.Handler, error) {
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return nil, err
	}
	return &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + folder, "GIT_HTTP_EXPORT_ALL=1"},
	}, nil
}

// groups are the groups of a cluster without additions, with one version each, beside v1.
var groups = strings.Fields(`
	admissionregistration.k8s.io apiextensions.k8s.io apiregistration.k8s.io apps
	authentication.k8s.io authorization.k8s.io autoscaling batch certificates.k8s.io
	coordination.k8s.io discovery.k8s.io events.k8s.io flowcontrol.apiserver.k8s.io
	networking.k8s.io node.k8s.io policy rbac.authorization.k8s.io scheduling.k8s.io
	storage.k8s.io
`)

// serveKubernetes answers what kubectl get pods asks of an API server without pods. Like servers
// before 1.26, it lists the resources of each group apart.
func serveKubernetes(string) (http.Handler, error) {
	type object = map[string]any
	mux := http.NewServeMux()
	answer := func(path string, o object) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(o)
		})
	}
	list := func(version string, resources ...object) object {
		return object{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version,
			"resources": append([]object{}, resources...)}
	}
	answer("/api", object{"kind": "APIVersions", "versions": []string{"v1"}})
	answer("/api/v1", list("v1", object{"name": "pods", "singularName": "pod", "namespaced": true,
		"kind": "Pod", "verbs": []string{"get", "list"}, "shortNames": []string{"po"}}))
	answer("/api/v1/namespaces/default/pods", object{"kind": "PodList", "apiVersion": "v1",
		"metadata": object{"resourceVersion": "1"}, "items": []object{}})
	var all []object
	for _, name := range groups {
		version := object{"groupVersion": name + "/v1", "version": "v1"}
		all = append(all,
			object{"name": name, "versions": []object{version}, "preferredVersion": version})
		// kubectl does not cache a group without resources.
		answer("/apis/"+name+"/v1", list(name+"/v1", object{"name": "things", "singularName": "thing",
			"namespaced": true, "kind": "Thing", "verbs": []string{"get", "list"}}))
	}
	answer("/apis", object{"kind": "APIGroupList", "apiVersion": "v1", "groups": all})
	return mux, nil
}
