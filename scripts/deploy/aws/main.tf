# The fleet of aws.yaml for OpenTofu or Terraform: a server on demand in a group of one with its volume, and a pool of spot
# machines of mixed types in three zones. The boot scripts are read from aws.yaml.
terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.40"
    }
  }
}

variable "name" {
  type        = string
  description = "Name of the fleet"
}

variable "region" {
  type    = string
  default = "us-east-1"
}

variable "package" {
  type        = string
  description = "Path of the static package (scripts/package.sh static)"
}

variable "image" {
  type        = string
  description = "Debian 12 or Ubuntu 24.04 with the AWS CLI and, on workers, an interpreter with TensorFlow"
}

variable "worker_image" {
  type        = string
  default     = ""
  description = "Image of the workers, if another one (a Deep Learning AMI, for GPUs)"
}

variable "server_type" {
  type    = string
  default = "t3.small"
}

variable "worker_types" {
  type    = list(string)
  default = ["c7a.4xlarge", "c6a.4xlarge", "m7a.4xlarge", "m6a.4xlarge"]
}

variable "workers" {
  type        = number
  default     = 0
  description = "Machines at the start"
}

variable "workers_max" {
  type    = number
  default = 20
}

variable "idle_exit" {
  type        = string
  default     = "10m"
  description = "A worker without work for so long removes itself"
}

variable "operator_cidr" {
  type        = string
  default     = "127.0.0.1/32"
  description = "Network from which tfe-ctl reaches the server; 127.0.0.1/32 is nowhere"
}

variable "vpc_prefix" {
  type        = string
  default     = "10.77"
  description = "First half of the network's addresses"
}

provider "aws" {
  region = var.region
}

data "aws_availability_zones" "available" {
  state = "available"
}

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

locals {
  zones  = slice(data.aws_availability_zones.available.names, 0, 3)
  groups = "arn:${data.aws_partition.current.partition}:autoscaling:${var.region}:${data.aws_caller_identity.current.account_id}:autoScalingGroup:*:autoScalingGroupName"
  ec2    = "arn:${data.aws_partition.current.partition}:ec2:${var.region}:${data.aws_caller_identity.current.account_id}"

  assume_role = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Principal = { Service = "ec2.amazonaws.com" }, Action = "sts:AssumeRole" }]
  })

  # The boot scripts of server and workers, in the order of aws.yaml, with the values of CloudFormation's references.
  boot_scripts = [
    for found in regexall("Fn::Base64: !Sub \\|\n((?: {12}.*\n|\n)+)", file("${path.module}/aws.yaml")) :
    replace(replace(replace(replace(replace(replace(replace(replace(replace(found[0],
      "/(?m)^ {12}/", ""),
      "$${AWS::Region}", var.region),
      "$${AWS::StackName}", var.name),
      "$${AdminToken}", aws_secretsmanager_secret.admin_token.arn),
      "$${Bucket}", aws_s3_bucket.fleet.id),
      "$${IdleExit}", var.idle_exit),
      "$${Token}", aws_secretsmanager_secret.token.arn),
      "$${Volume}", aws_ebs_volume.state.id),
    "$${Zone}", aws_route53_zone.fleet.zone_id)
  ]
}

# --- network: one public subnet in each of three zones, no NAT gateway to pay

resource "aws_vpc" "fleet" {
  cidr_block           = "${var.vpc_prefix}.0.0/16"
  enable_dns_support   = true
  enable_dns_hostnames = true
  tags                 = { Name = var.name }
}

resource "aws_internet_gateway" "fleet" {
  vpc_id = aws_vpc.fleet.id
}

resource "aws_route_table" "fleet" {
  vpc_id = aws_vpc.fleet.id
}

resource "aws_route" "default" {
  route_table_id         = aws_route_table.fleet.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.fleet.id
}

resource "aws_subnet" "fleet" {
  count                   = 3
  vpc_id                  = aws_vpc.fleet.id
  availability_zone       = local.zones[count.index]
  cidr_block              = "${var.vpc_prefix}.${16 * count.index}.0/20"
  map_public_ip_on_launch = true
}

resource "aws_route_table_association" "fleet" {
  count          = 3
  subnet_id      = aws_subnet.fleet[count.index].id
  route_table_id = aws_route_table.fleet.id
}

# Workers find the server by this name; the server writes its address at each boot.
resource "aws_route53_zone" "fleet" {
  name          = "${var.name}.tfe.internal"
  force_destroy = true

  vpc {
    vpc_id = aws_vpc.fleet.id
  }
}

# --- firewalls: the control channel, and the workers' ephemeral ports among themselves

resource "aws_security_group" "server" {
  name_prefix = "${var.name}-server-"
  description = "tfe-rdzv - its port, from workers and operators"
  vpc_id      = aws_vpc.fleet.id
}

resource "aws_security_group" "worker" {
  name_prefix = "${var.name}-worker-"
  description = "tfe workers - trainers of other workers"
  vpc_id      = aws_vpc.fleet.id
}

resource "aws_vpc_security_group_ingress_rule" "server_from_operators" {
  security_group_id = aws_security_group.server.id
  ip_protocol       = "tcp"
  from_port         = 5556
  to_port           = 5556
  cidr_ipv4         = var.operator_cidr
  description       = "tfe-ctl"
}

resource "aws_vpc_security_group_ingress_rule" "server_from_workers" {
  security_group_id            = aws_security_group.server.id
  ip_protocol                  = "tcp"
  from_port                    = 5556
  to_port                      = 5556
  referenced_security_group_id = aws_security_group.worker.id
  description                  = "agents"
}

resource "aws_vpc_security_group_ingress_rule" "workers_from_workers" {
  security_group_id            = aws_security_group.worker.id
  ip_protocol                  = "tcp"
  from_port                    = 32768
  to_port                      = 60999
  referenced_security_group_id = aws_security_group.worker.id
  description                  = "trainers, probes and proofs of termination"
}

# CloudFormation's groups have this rule by default.
resource "aws_vpc_security_group_egress_rule" "all" {
  for_each          = { server = aws_security_group.server.id, worker = aws_security_group.worker.id }
  security_group_id = each.value
  ip_protocol       = "-1"
  cidr_ipv4         = "0.0.0.0/0"
}

# --- what outlives machines

# Package, checkpoints and artifacts; `destroy` refuses to delete a bucket with objects.
resource "aws_s3_bucket" "fleet" {
  bucket_prefix = "${var.name}-"
}

resource "aws_s3_bucket_public_access_block" "fleet" {
  bucket                  = aws_s3_bucket.fleet.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "fleet" {
  bucket = aws_s3_bucket.fleet.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "fleet" {
  bucket = aws_s3_bucket.fleet.id

  rule {
    id     = "uploads"
    status = "Enabled"

    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 2
    }
  }
}

resource "aws_s3_object" "package" {
  bucket = aws_s3_bucket.fleet.id
  key    = "package/tfe.tar.gz"
  source = var.package
  etag   = filemd5(var.package)
}

# The server writes both at its first boot; no token is in the state file.
resource "aws_secretsmanager_secret" "token" {
  name                    = "${var.name}/agent-token"
  description             = "join token of the workers"
  recovery_window_in_days = 0
}

resource "aws_secretsmanager_secret" "admin_token" {
  name                    = "${var.name}/admin-token"
  description             = "token of operators"
  recovery_window_in_days = 0
}

# The server's state; in the zone of the server's subnet.
resource "aws_ebs_volume" "state" {
  availability_zone = local.zones[0]
  size              = 8
  type              = "gp3"
  encrypted         = true
  tags              = { Name = "${var.name}-state" }
}

# --- the server

resource "aws_iam_role" "server" {
  name_prefix        = "${var.name}-server-"
  assume_role_policy = local.assume_role
}

resource "aws_iam_role_policy" "server" {
  name = "server"
  role = aws_iam_role.server.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Effect = "Allow", Action = "s3:GetObject", Resource = "${aws_s3_bucket.fleet.arn}/package/*" },
      { Effect = "Allow", Action = "s3:ListBucket", Resource = aws_s3_bucket.fleet.arn },
      { Effect = "Allow", Action = "secretsmanager:PutSecretValue", Resource = [aws_secretsmanager_secret.token.arn, aws_secretsmanager_secret.admin_token.arn] },
      { Effect = "Allow", Action = "ec2:AttachVolume", Resource = ["${local.ec2}:volume/${aws_ebs_volume.state.id}", "${local.ec2}:instance/*"] },
      { Effect = "Allow", Action = "route53:ChangeResourceRecordSets", Resource = aws_route53_zone.fleet.arn },
      { Effect = "Allow", Action = "autoscaling:DescribeAutoScalingGroups", Resource = "*" },
      { Effect = "Allow", Action = "autoscaling:SetDesiredCapacity", Resource = "${local.groups}/${var.name}-workers" },
    ]
  })
}

resource "aws_iam_instance_profile" "server" {
  name_prefix = "${var.name}-server-"
  role        = aws_iam_role.server.name
}

resource "aws_launch_template" "server" {
  name_prefix            = "${var.name}-server-"
  image_id               = var.image
  instance_type          = var.server_type
  vpc_security_group_ids = [aws_security_group.server.id]
  user_data              = base64encode(local.boot_scripts[0])

  iam_instance_profile {
    arn = aws_iam_instance_profile.server.arn
  }

  metadata_options {
    http_tokens   = "required"
    http_endpoint = "enabled"
  }
}

resource "aws_autoscaling_group" "server" {
  name                = "${var.name}-server"
  min_size            = 1
  max_size            = 1
  desired_capacity    = 1
  vpc_zone_identifier = [aws_subnet.fleet[0].id] # that of its volume
  depends_on          = [aws_route.default, aws_iam_role_policy.server]

  launch_template {
    id      = aws_launch_template.server.id
    version = aws_launch_template.server.latest_version
  }

  tag {
    key                 = "Name"
    value               = "${var.name}-server"
    propagate_at_launch = true
  }
}

# --- the workers

resource "aws_iam_role" "worker" {
  name_prefix        = "${var.name}-worker-"
  assume_role_policy = local.assume_role
}

resource "aws_iam_role_policy" "worker" {
  name = "worker"
  role = aws_iam_role.worker.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Effect = "Allow", Action = "s3:GetObject", Resource = "${aws_s3_bucket.fleet.arn}/*" },
      { Effect = "Allow", Action = ["s3:PutObject", "s3:DeleteObject"], Resource = ["${aws_s3_bucket.fleet.arn}/checkpoints/*", "${aws_s3_bucket.fleet.arn}/artifacts/*"] },
      { Effect = "Allow", Action = "s3:ListBucket", Resource = aws_s3_bucket.fleet.arn },
      { Effect = "Allow", Action = "secretsmanager:GetSecretValue", Resource = aws_secretsmanager_secret.token.arn },
      { Effect = "Allow", Action = "autoscaling:TerminateInstanceInAutoScalingGroup", Resource = "${local.groups}/${var.name}-workers" },
    ]
  })
}

resource "aws_iam_instance_profile" "worker" {
  name_prefix = "${var.name}-worker-"
  role        = aws_iam_role.worker.name
}

resource "aws_launch_template" "worker" {
  name_prefix            = "${var.name}-worker-"
  image_id               = var.worker_image != "" ? var.worker_image : var.image
  instance_type          = var.worker_types[0]
  vpc_security_group_ids = [aws_security_group.worker.id]
  user_data              = base64encode(local.boot_scripts[1])

  iam_instance_profile {
    arn = aws_iam_instance_profile.worker.arn
  }

  metadata_options {
    http_tokens                 = "required"
    http_endpoint               = "enabled"
    http_put_response_hop_limit = 2
  }
}

resource "aws_autoscaling_group" "workers" {
  name                = "${var.name}-workers"
  min_size            = 0
  max_size            = var.workers_max
  desired_capacity    = var.workers
  capacity_rebalance  = true
  vpc_zone_identifier = aws_subnet.fleet[*].id
  depends_on          = [aws_route.default, aws_iam_role_policy.worker]

  mixed_instances_policy {
    instances_distribution {
      on_demand_base_capacity                  = 0
      on_demand_percentage_above_base_capacity = 0
      spot_allocation_strategy                 = "price-capacity-optimized"
    }

    launch_template {
      launch_template_specification {
        launch_template_id = aws_launch_template.worker.id
        version            = aws_launch_template.worker.latest_version
      }

      dynamic "override" {
        for_each = var.worker_types
        content {
          instance_type = override.value
        }
      }
    }
  }

  tag {
    key                 = "Name"
    value               = "${var.name}-worker"
    propagate_at_launch = true
  }

  # The server's autoscaler and idle workers change it.
  lifecycle {
    ignore_changes = [desired_capacity]
  }
}

output "bucket" {
  value = aws_s3_bucket.fleet.id
}
