# The agents of the fleet: one on each node of class "spot". The join token is in the Nomad variable nomad/jobs/tfe-agents.
variable "package" {
  type        = string
  description = "URL of the static package"
}

variable "datacenters" {
  type    = list(string)
  default = ["dc1", "dc2", "dc3"]
}

job "tfe-agents" {
  datacenters = var.datacenters
  type        = "system"

  group "agent" {
    constraint {
      attribute = "${node.class}"
      value     = "spot"
    }

    network {
      mode = "host"
    }

    task "agent" {
      driver       = "raw_exec"
      kill_timeout = "120s"
      kill_signal  = "SIGTERM"

      artifact {
        source = var.package
      }

      template {
        destination = "secrets/agent.token"
        perms       = "600"
        data        = "{{ with nomadVar \"nomad/jobs/tfe-agents\" }}{{ .token }}{{ end }}"
      }

      config {
        command = "local/tfe/bin/tfe-agent"
        args = [
          "--pool",
          "--rdzv-endpoint=tfe-rdzv.service.consul:5556",
          "--token-file=${NOMAD_SECRETS_DIR}/agent.token",
          "--no-persist",
          "--node-name=${node.unique.name}",
          "--label=zone=${node.datacenter}",
          "--label=spot=true",
        ]
      }

      resources {
        cpu    = 2000
        memory = 4096
      }
    }
  }
}
