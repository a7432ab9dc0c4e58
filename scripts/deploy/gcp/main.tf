# A fleet on Google Cloud: a server on demand with its disk, and a regional group of spot machines over three zones.
terraform {
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.0"
    }
  }
}

variable "project" {
  type = string
}

variable "region" {
  type    = string
  default = "us-central1"
}

variable "zones" {
  type    = list(string)
  default = ["us-central1-a", "us-central1-b", "us-central1-c"]
}

variable "package" {
  type        = string
  description = "URL of the static package"
}

variable "image" {
  type    = string
  default = "debian-cloud/debian-12"
}

variable "workers" {
  type    = number
  default = 0
}

provider "google" {
  project = var.project
  region  = var.region
}

resource "google_compute_network" "tfe" {
  name                    = "tfe"
  auto_create_subnetworks = true
}

resource "google_compute_firewall" "control" {
  name        = "tfe-control"
  network     = google_compute_network.tfe.name
  source_tags = ["tfe-worker"]
  target_tags = ["tfe-server"]

  allow {
    protocol = "tcp"
    ports    = ["5556"]
  }
}

resource "google_compute_firewall" "trainers" {
  name        = "tfe-trainers"
  network     = google_compute_network.tfe.name
  source_tags = ["tfe-worker"]
  target_tags = ["tfe-worker"]

  allow {
    protocol = "tcp"
    ports    = ["32768-60999"]
  }
}

resource "google_service_account" "server" {
  account_id = "tfe-server"
}

resource "google_service_account" "worker" {
  account_id = "tfe-worker"
}

# The token is added as a version by hand, once: it is in no state file.
resource "google_secret_manager_secret" "token" {
  secret_id = "tfe-agent-token"

  replication {
    auto {}
  }
}

resource "google_secret_manager_secret_iam_member" "token" {
  secret_id = google_secret_manager_secret.token.id
  role      = "roles/secretmanager.secretAccessor"
  member    = "serviceAccount:${google_service_account.worker.email}"
}

resource "google_compute_instance" "server" {
  name         = "tfe-server"
  zone         = var.zones[0]
  machine_type = "e2-small"
  tags         = ["tfe-server"]

  boot_disk {
    initialize_params {
      image = var.image
    }
  }

  network_interface {
    network = google_compute_network.tfe.id
    access_config {}
  }

  service_account {
    email  = google_service_account.server.email
    scopes = ["cloud-platform"]
  }

  metadata = {
    user-data = replace(file("${path.module}/../cloud-init/server.yaml"), "PACKAGE_URL", var.package)
  }
}

resource "google_compute_instance_template" "worker" {
  name_prefix  = "tfe-worker-"
  machine_type = "n2-standard-8"
  tags         = ["tfe-worker"]

  scheduling {
    provisioning_model          = "SPOT"
    preemptible                 = true
    automatic_restart           = false
    instance_termination_action = "DELETE"
  }

  disk {
    source_image = var.image
    boot         = true
    auto_delete  = true
  }

  network_interface {
    network = google_compute_network.tfe.id
    access_config {}
  }

  service_account {
    email  = google_service_account.worker.email
    scopes = ["cloud-platform"]
  }

  metadata = {
    user-data = replace(replace(replace(file("${path.module}/../cloud-init/worker.yaml"), "PACKAGE_URL", var.package),
      "SERVER", google_compute_instance.server.network_interface[0].network_ip),
    "TOKEN_COMMAND", "gcloud secrets versions access latest --secret=tfe-agent-token")
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "google_compute_region_instance_group_manager" "workers" {
  name                      = "tfe-workers"
  base_instance_name        = "tfe-worker"
  region                    = var.region
  distribution_policy_zones = var.zones
  target_size               = var.workers

  version {
    instance_template = google_compute_instance_template.worker.self_link_unique
  }

  update_policy {
    type                         = "OPPORTUNISTIC"
    minimal_action               = "REPLACE"
    max_surge_fixed              = 3
    instance_redistribution_type = "NONE"
  }
}
