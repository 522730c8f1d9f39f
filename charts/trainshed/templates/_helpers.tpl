{{/* Names and labels. The parts of a Ray Pod are in raycluster/_pod.tpl. */}}

{{- define "trainshed.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* Name of the RayCluster and prefix of every other name. Never truncated: validate.yaml rejects long names. */}}
{{- define "trainshed.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := include "trainshed.name" . -}}
{{- contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- end -}}
{{- end -}}

{{/* Labels for selectors. Takes (list $ COMPONENT). */}}
{{- define "trainshed.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/part-of: trainshed
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of an object. Takes (list $ COMPONENT). Not for Pod templates, where a new version would replace Pods. */}}
{{- define "trainshed.labels" -}}
{{- $root := index . 0 -}}
{{ include "trainshed.selectorLabels" . }}
app.kubernetes.io/name: {{ include "trainshed.name" $root | quote }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name ($root.Chart.Version | replace "+" "_") }}
{{- end -}}

{{/*
Labels of a Pod; labels that selectors and clouds use override podLabels. Takes (list $ COMPONENT) or (list $ COMPONENT LABELS).
*/}}
{{- define "trainshed.podLabels" -}}
{{- $own := include "trainshed.selectorLabels" . | fromYaml -}}
{{- if has (index . 1) (list "ray" "digits") -}}
{{- $own = merge $own (include "trainshed.identityLabels" (index . 0) | fromYaml) -}}
{{- end -}}
{{- $more := gt (len .) 2 | ternary (index . (sub (len .) 1 | int)) dict -}}
{{- toYaml (merge $own (default dict $more) (index . 0).Values.podLabels) -}}
{{- end -}}

{{/* A user's value as text: Helm reads numbers as floats, which print as 1e+06. Takes the value. */}}
{{- define "trainshed.text" -}}
{{- kindIs "string" . | ternary . (toJson .) -}}
{{- end -}}

{{/* An image as YAML; missing fields come from the training image. Takes (list $ IMAGE). */}}
{{- define "trainshed.otherImage" -}}
{{- $image := deepCopy (index . 0).Values.image -}}
{{- $other := default dict (index . 1) -}}
{{- /* A digest identifies one image, so it is not inherited. */ -}}
{{- if or $other.tag $other.repository -}}
{{- $_ := set $image "digest" "" -}}
{{- end -}}
{{- range $part, $value := $other -}}
{{- $_ := set $image $part $value -}}
{{- end -}}
{{- toYaml $image -}}
{{- end -}}

{{/* The reference of an image. Takes (list $ IMAGE), IMAGE being {registry, repository, tag, digest}. */}}
{{- define "trainshed.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $registry := default $image.registry $root.Values.global.imageRegistry -}}
{{- $repository := ternary (printf "%s/%s" $registry $image.repository) $image.repository (ne $registry "") -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default $root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "trainshed.serviceAccountName" -}}
{{- include "trainshed.fullname" . }}-ray
{{- end -}}

{{/* Name of the Secret with the cluster's token: ray.tokenSecret, or KubeRay's, which is named like the RayCluster. */}}
{{- define "trainshed.tokenSecretName" -}}
{{- default (include "trainshed.fullname" .) .Values.ray.tokenSecret -}}
{{- end -}}

{{- define "trainshed.headService" -}}
{{- include "trainshed.fullname" . }}-head-svc
{{- end -}}

{{- define "trainshed.claimName" -}}
{{- default .Values.storage.claim.name .Values.storage.existingClaim -}}
{{- end -}}

{{/* Base of relative paths in a TrainingRun. */}}
{{- define "trainshed.home" -}}
{{- default .Values.storage.mountPath (trimSuffix "/" .Values.storage.url) -}}
{{- end -}}
