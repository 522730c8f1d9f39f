{{/* Defaults of the preset, as YAML. Takes $. */}}
{{- define "trainshed.preset" -}}
{{- get (.Files.Get "files/presets.yaml" | fromYaml) .Values.preset | toYaml -}}
{{- end -}}

{{/*
A group with its defaults filled in, as YAML: the preset's, then groupDefaults, then its own. Takes (list $ NAME).
Written out because merge functions treat `false` and 0 as missing.
*/}}
{{- define "trainshed.group" -}}
{{- $root := index . 0 -}}
{{- $preset := include "trainshed.preset" $root | fromYaml -}}
{{- $ofPreset := dig "groups" (index . 1) dict $preset -}}
{{- $merged := deepCopy $preset.group -}}
{{- range $layer := list $ofPreset $root.Values.groupDefaults (index $root.Values.groups (index . 1) | default dict) -}}
{{- range $key, $value := omit $layer "resources" -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $merged $key $value -}}
{{- end -}}
{{- end -}}
{{- $_ := set $merged "resources" (include "trainshed.resources" (list $merged.resources $layer.resources) | fromYaml) -}}
{{- end -}}
{{- toYaml $merged -}}
{{- end -}}

{{/* Requests and limits, with defaults for missing ones, as YAML. Takes (list DEFAULTS RESOURCES). */}}
{{- define "trainshed.resources" -}}
{{- $merged := deepCopy (index . 0) -}}
{{- range $part, $amounts := index . 1 -}}
{{- range $name, $amount := $amounts -}}
{{- $_ := set (index $merged $part) $name $amount -}}
{{- end -}}
{{- end -}}
{{- toYaml $merged -}}
{{- end -}}

{{- define "trainshed.headResources" -}}
{{- $preset := include "trainshed.preset" . | fromYaml -}}
{{- include "trainshed.resources" (list $preset.head.resources .Values.head.resources) -}}
{{- end -}}

{{/* Requests and limits of one worker, including GPUs. Takes a filled group. */}}
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
Parameters of `ray start` of a worker, as YAML. KubeRay counts as GPUs what ends in `gpu` and plain MIG slices; of
another resource Ray has to be given the number. Takes a filled group.
*/}}
{{- define "trainshed.rayStartParams" -}}
{{- $params := dict -}}
{{- if and (gt (int .gpus) 0) (not (regexMatch "(gpu|nvidia\\.com/mig-[0-9]+g\\.[0-9]+gb)$" .gpuResource)) -}}
{{- $_ := set $params "num-gpus" (.gpus | int | toString) -}}
{{- end -}}
{{- range $name, $value := .rayStartParams -}}
{{- $_ := set $params $name (include "trainshed.text" $value) -}}
{{- end -}}
{{- toYaml $params -}}
{{- end -}}
