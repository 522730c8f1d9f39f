{{/*
A group with its defaults filled in, as YAML. Takes (list $ GROUP). Written out because merge functions
take `false` and 0 for "not said".
*/}}
{{- define "trainshed.group" -}}
{{- $root := index . 0 -}}
{{- $group := default dict (index . 1) -}}
{{- $merged := deepCopy $root.Values.groupDefaults -}}
{{- range $key, $value := omit $group "resources" -}}
{{- $_ := set $merged $key $value -}}
{{- end -}}
{{- range $part, $amounts := $group.resources -}}
{{- range $name, $amount := $amounts -}}
{{- $_ := set (index $merged.resources $part) $name $amount -}}
{{- end -}}
{{- end -}}
{{- toYaml $merged -}}
{{- end -}}

{{/* Requests and limits of one worker, GPUs among the limits. Takes a filled group. */}}
{{- define "trainshed.groupResources" -}}
requests:
  {{- toYaml .resources.requests | nindent 2 }}
limits:
  {{- toYaml .resources.limits | nindent 2 }}
  {{- if gt (int .gpus) 0 }}
  {{ .gpuResource }}: {{ .gpus | int | quote }}
  {{- end }}
{{- end -}}

{{/*
Parameters of `ray start` of a worker, as YAML. KubeRay counts as GPUs what ends in `gpu` and nvidia.com/mig-*; of
another resource Ray has to be given the number. Takes a filled group.
*/}}
{{- define "trainshed.rayStartParams" -}}
{{- $params := dict -}}
{{- if and (gt (int .gpus) 0) (not (regexMatch "(gpu|^nvidia\\.com/mig-.*)$" .gpuResource)) -}}
{{- $_ := set $params "num-gpus" (.gpus | int | toString) -}}
{{- end -}}
{{- range $name, $value := .rayStartParams -}}
{{- $_ := set $params $name (include "trainshed.text" $value) -}}
{{- end -}}
{{- toYaml $params -}}
{{- end -}}
