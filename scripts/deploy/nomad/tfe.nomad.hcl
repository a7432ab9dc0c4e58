# A fleet under Nomad with Consul: nomad job run -var package=https://example.com/tfe.tar.gz tfe.nomad.hcl
variable "package" {
  type        = string
  description = "URL of the static package"
}

variable "datacenters" {
  type    = list(string)
  default = ["dc1", "dc2", "dc3"]
}

job "tfe-server" {
  datacenters = var.datacenters
  type        = "service"

  group "server" {
    count = 1

    constraint {
      attribute = "${node.class}"
      operator  = "!="
      value     = "spot"
    }

    network {
      port "rdzv" {
        static = 5556
      }
    }

    volume "state" {
      type   = "host"
      source = "tfe-state"
    }

    service {
      name = "tfe-rdzv"
      port = "rdzv"

      check {
        type     = "tcp"
        interval = "5s"
        timeout  = "2s"
      }
    }

    task "rdzv" {
      driver = "exec"

      artifact {
        source = var.package
      }

      volume_mount {
        volume      = "state"
        destination = "/state"
      }

      config {
        command = "local/tfe/bin/tfe-rdzv"
        args    = ["--state-dir=/state", "--port=${NOMAD_PORT_rdzv}"]
      }

      resources {
        cpu    = 500
        memory = 512
      }
    }
  }
}
