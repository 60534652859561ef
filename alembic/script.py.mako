"""${message}"""

from kbsearch import migrate

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}

# In the order of their installation: a function's body binds the names that it uses when it is created.
FILES: list[str] = []


def upgrade() -> None:
    migrate.run_files(FILES)


def downgrade() -> None:
    migrate.drop_files(FILES)
