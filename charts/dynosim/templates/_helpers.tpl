{{/* The values, with those under `dynamo-operator` over the others. Use: include "dynosim.values" . | fromYaml */}}
{{- define "dynosim.values" -}}
{{- $published := get .Values "dynamo-operator" | default dict -}}
{{- omit (mergeOverwrite (deepCopy .Values) (deepCopy $published)) "dynamo-operator" | toYaml -}}
{{- end -}}

{{- define "dynosim.name" -}}
{{- $v := include "dynosim.values" . | fromYaml -}}
{{- if $v.fullnameOverride -}}
{{- $v.fullnameOverride -}}
{{- else if contains "dynosim" .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-dynosim" .Release.Name -}}
{{- end -}}
{{- end -}}

{{/* The namespace of the graphs that are looked after; empty: all. */}}
{{- define "dynosim.target" -}}
{{- $restriction := (include "dynosim.values" . | fromYaml).namespaceRestriction -}}
{{- if $restriction.enabled -}}
{{- $restriction.targetNamespace | default .Release.Namespace -}}
{{- end -}}
{{- end -}}

{{/* Name of objects that have no namespace. */}}
{{- define "dynosim.clusterName" -}}
{{- $name := include "dynosim.name" . -}}
{{- $target := include "dynosim.target" . -}}
{{- if $target -}}
{{- printf "%s-%s" $name $target -}}
{{- else -}}
{{- $name -}}
{{- end -}}
{{- end -}}

{{- define "dynosim.selector" -}}
app.kubernetes.io/name: dynosim
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "dynosim.labels" -}}
{{ include "dynosim.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "dynosim.image" -}}
{{- $image := (include "dynosim.values" . | fromYaml).controllerManager.manager.image -}}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{/* Names of pull secrets, given as names or as {name: NAME}; a list in JSON. */}}
{{- define "dynosim.pullSecrets" -}}
{{- $names := list -}}
{{- range (include "dynosim.values" . | fromYaml).imagePullSecrets -}}
{{- $names = append $names (kindIs "map" . | ternary (get (kindIs "map" . | ternary . dict) "name") .) -}}
{{- end -}}
{{- $names | toJson -}}
{{- end -}}

{{/* A number, or one with s, m or h, in seconds. */}}
{{- define "dynosim.seconds" -}}
{{- $text := toString . -}}
{{- $unit := get (dict "m" 60 "h" 3600) (trimAll "0123456789" $text) | default 1 -}}
{{- mul (trimAll "smh" $text | int) $unit -}}
{{- end -}}

{{/* Whether there are to be monitors: as chosen or, if nothing is, where the cluster has them. Of {chosen, kind, root} */}}
{{- define "dynosim.monitors" -}}
{{- if kindIs "bool" .chosen -}}
{{- .chosen | ternary "true" "" -}}
{{- else if .root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .kind) -}}
true
{{- end -}}
{{- end -}}

{{- define "dynosim.podMonitors" -}}
{{- $metrics := (include "dynosim.values" . | fromYaml).dynamo.metrics -}}
{{- include "dynosim.monitors" (dict "chosen" (get ($metrics.podMonitors | default dict) "enabled") "kind" "PodMonitor" "root" .) -}}
{{- end -}}

{{/* What is restarted for: settings that graphs are built by. */}}
{{- define "dynosim.settings" -}}
{{- $v := include "dynosim.values" . | fromYaml -}}
{{- $image := $v.controllerManager.manager.image -}}
imagePolicy: {{ $v.imagePolicy }}
mockerImage: {{ $v.mockerImage | default (include "dynosim.image" .) | quote }}
mockerImagePullPolicy: {{ $v.mockerImagePullPolicy | default $image.pullPolicy }}
imagePullSecrets: {{ include "dynosim.pullSecrets" . }}
discoveryBackend: {{ $v.discoveryBackend }}
{{- with $v.natsAddr }}
natsAddr: {{ quote . }}
{{- end }}
{{- with $v.etcdAddr }}
etcdAddr: {{ quote . }}
{{- end }}
{{- with $v.dynamo.metrics.prometheusEndpoint }}
prometheusEndpoint: {{ quote . }}
{{- end }}
{{- with $v.modelExpressURL }}
modelExpressURL: {{ quote . }}
{{- end }}
ingress:
  enabled: {{ $v.dynamo.ingress.enabled }}
  {{- with $v.dynamo.ingress.className }}
  className: {{ quote . }}
  {{- end }}
  {{- with $v.dynamo.ingressHostSuffix }}
  hostSuffix: {{ quote . }}
  {{- end }}
  {{- with $v.dynamo.ingress.tlsSecretName }}
  tlsSecretName: {{ quote . }}
  {{- end }}
podMonitors: {{ include "dynosim.podMonitors" . | default "false" }}
{{- end -}}
