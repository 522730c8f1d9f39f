{{/* Names and shared parts of the controller's objects. */}}

{{- define "trainshed.controllerName" -}}
{{- include "trainshed.fullname" . }}-controller
{{- end -}}

{{- define "trainshed.classesName" -}}
{{- include "trainshed.fullname" . }}-classes
{{- end -}}

{{- define "trainshed.progressKeyName" -}}
{{- include "trainshed.fullname" . }}-progress-key
{{- end -}}

{{/* A Pod's token for the API server, mounted only where it is needed. */}}
{{- define "trainshed.apiTokenVolume" -}}
name: api-token
projected:
  sources:
    - serviceAccountToken: {path: token, expirationSeconds: 3600}
    - configMap:
        name: kube-root-ca.crt
        items: [{key: ca.crt, path: ca.crt}]
    - downwardAPI:
        items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]
{{- end -}}

{{- define "trainshed.apiTokenMount" -}}
{name: api-token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end -}}

{{/*
The spec of this release's RayCluster as a class, without workers, which each run requests. KubeRay creates a token for
each cluster, so that no run can submit jobs to the cluster of another.
*/}}
{{- define "trainshed.defaultClass" -}}
{{- $path := print $.Template.BasePath "/raycluster/raycluster.yaml" -}}
{{- $cluster := include $path (merge (dict "isClass" true) .) | fromYaml -}}
{{- $spec := omit $cluster.spec "autoscalerOptions" "headServiceAnnotations" -}}
{{- $_ := set $spec "enableInTreeAutoscaling" false -}}
{{- $_ := set $spec "authOptions" (dict "mode" "token") -}}
{{- $_ := unset $spec "upgradeStrategy" -}}
{{- range $spec.workerGroupSpecs -}}
{{- $_ := set . "replicas" 0 -}}
{{- $_ := set . "minReplicas" 0 -}}
{{- end -}}
{{- toYaml $spec -}}
{{- end -}}

{{/*
The default class with one image for its head and every worker, those of groups that have another one too:
who asks for the class asks for what the image has. Takes (list $ IMAGE), IMAGE being a reference.
*/}}
{{- define "trainshed.classOfImage" -}}
{{- $image := index . 1 -}}
{{- $spec := include "trainshed.defaultClass" (index . 0) | fromYaml -}}
{{- range prepend $spec.workerGroupSpecs $spec.headGroupSpec -}}
{{- /* The first container is Ray's; the others are sidecars. */ -}}
{{- $_ := set (first .template.spec.containers) "image" $image -}}
{{- end -}}
{{- toYaml $spec -}}
{{- end -}}

{{/*
A class of the user's own. What it leaves out of protection is added: a token of each cluster's own, TLS where the
release has it, the labels that the NetworkPolicies select, a ServiceAccount without rights, and the security context of Pod Security "restricted".
Its workers follow their head as those of the release do, where the class does not say otherwise.
Takes (list $ SPEC FILL): a RayClusterSpec, and whether to fill each field of security contexts.
*/}}
{{- define "trainshed.ownClass" -}}
{{- $root := index . 0 -}}
{{- $spec := deepCopy (index . 1) -}}
{{- $fill := index . 2 -}}
{{- $_ := set $spec "rayVersion" (default $root.Values.ray.version $spec.rayVersion) -}}
{{- $_ := set $spec "authOptions" (default (dict "mode" "token") $spec.authOptions) -}}
{{- if and $root.Values.ray.tls (not $spec.tlsOptions) -}}
{{- $_ := set $spec "tlsOptions" (dict "enabled" true) -}}
{{- end -}}
{{- $head := default dict $spec.headGroupSpec -}}
{{- range $group := prepend (default list $spec.workerGroupSpecs) $head -}}
{{- $_ := set $group "template" (include "trainshed.closedPod" (list $root $group.template $fill) | fromYaml) -}}
{{- end -}}
{{- $port := get (default dict $head.rayStartParams) "port" | default 6379 -}}
{{- range $group := $spec.workerGroupSpecs -}}
{{- $pod := default dict $group.template.spec -}}
{{- $container := first (default (list dict) $pod.containers) -}}
{{- $grace := default 30 $pod.terminationGracePeriodSeconds -}}
{{- $follows := include "trainshed.followsHead" (list $root $grace $port) | fromYaml -}}
{{- $annotations := default dict $group.template.metadata.annotations -}}
{{- $is_own := eq "true" (toString (get $annotations "ray.io/overwrite-container-cmd")) -}}
{{- if not (or $container.command $container.args $is_own $spec.gcsFaultToleranceOptions) -}}
{{- $_ := set $container "args" $follows.args -}}
{{- /* Without this, a worker that restarts in its Pod waits for a lost head, with growing pauses. */ -}}
{{- $_ := set $pod "restartPolicy" (default "Never" $pod.restartPolicy) -}}
{{- end -}}
{{- /* With fault tolerance workers wait for the same cluster's new head. */ -}}
{{- if not (or $container.lifecycle $spec.gcsFaultToleranceOptions) -}}
{{- $_ := set $container "lifecycle" $follows.lifecycle -}}
{{- end -}}
{{- end -}}
{{- toYaml $spec -}}
{{- end -}}

{{/* A Pod template with the chart's protection where it has none, as YAML. Takes (list $ TEMPLATE FILL). */}}
{{- define "trainshed.closedPod" -}}
{{- $root := index . 0 -}}
{{- $fill := index . 2 -}}
{{- $template := default dict (index . 1) -}}
{{- $metadata := default dict $template.metadata -}}
{{- /* The chart's labels override others, because NetworkPolicies select Pods by them. */ -}}
{{- $_ := set $metadata "labels" (include "trainshed.podLabels" (list $root "ray" $metadata.labels) | fromYaml) -}}
{{- with $root.Values.podAnnotations -}}
{{- $_ := set $metadata "annotations" (merge (default dict $metadata.annotations) .) -}}
{{- end -}}
{{- $_ := set $template "metadata" $metadata -}}
{{- with $template.spec -}}
{{- if not .serviceAccountName -}}
{{- $_ := set . "serviceAccountName" (include "trainshed.serviceAccountName" $root) -}}
{{- end -}}
{{- if not (hasKey . "automountServiceAccountToken") -}}
{{- $_ := set . "automountServiceAccountToken" false -}}
{{- end -}}
{{- if or $fill (not .securityContext) -}}
{{- $defaults := include "trainshed.podSecurityContext" $root | fromYaml -}}
{{- $_ := set . "securityContext" (include "trainshed.filledSecurity" (list .securityContext $defaults) | fromYaml) -}}
{{- end -}}
{{- range $field := list "initContainers" "containers" -}}
{{- with index $template.spec $field -}}
{{- $_ := set $template.spec $field (include "trainshed.closedContainers" (list $root . $fill) | fromYamlArray) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $template -}}
{{- end -}}
